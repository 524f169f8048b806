"""What the collector stores, checked by playing the games again one by one."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import Answer, Choice, PPOAgent
from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_LOW, REPETITIONS, THEIR_HAND
from keisei.shogi.judging import Reason
from keisei.shogi.pieces import BLACK, HAND_LETTERS, LETTERS, PIECE_OF_LETTERS, WHITE
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.squares import square_name
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.experience_collector import SerialCollector
from keisei.training.parallel.self_play import groups_of
from tests.core.reference import softmax_over_legal
from tests.core.small import BOTH_CAN_MATE, bits, one_thread, opinionated, small_config


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def serial(config, agent, pool=None):
    return SerialCollector(config, agent, pool, groups_of(config, None), threads=1)


def agent_of(config):
    return opinionated(PPOAgent(config.model, config.ppo, seed=config.seed))


class Rollout:
    """A filled buffer and all that took part in filling it."""

    def __init__(self, config, steps, *, games=None, threads=1):
        self.agent = agent_of(config)
        self.pool = OpponentPool(config, self.agent) if config.games.opponent_share else None
        if self.pool is not None:
            opinionated(self.pool.opponent, seed=9)  # so that it is told from the learner
        groups = groups_of(config, None)
        self.collector = SerialCollector(config, self.agent, self.pool, groups, threads=threads)
        self.play = self.collector.groups[0]
        if games is not None:
            self.play.games = games
        self.buffer = ExperienceBuffer(steps, config.games.count)
        self.last_values, self.statistics = self.collector.collect(self.buffer)

    def legal(self, step, game):
        start, count = self.buffer.legal_starts[step, game], self.buffer.legal_counts[step, game]
        return self.buffer.legal_pool[start : start + int(count)]

    def steps(self):
        """Every (step, game) of the buffer."""
        return np.ndindex(self.buffer.ends.shape)

    def movers(self):
        return self.buffer.positions[:, :, COLOUR]

    def plies(self):
        low, high = np.moveaxis(self.buffer.positions[:, :, PLY_LOW:].view(np.uint8), 2, 0)
        return low + 256 * high.astype(np.int64)


def sfen_of(position):
    """The SFEN of a compact position."""
    mover = int(position[COLOUR])
    board = position[:81] if mover == BLACK else -position[80::-1]
    cells = []
    for piece in board.tolist():
        letters = LETTERS[abs(piece)]
        cells.append((letters if piece > 0 else letters.lower()) or "1")
    ranks = ["".join(cells[9 * rank : 9 * rank + 9]) for rank in range(9)]
    hands = [position[OWN_HAND:THEIR_HAND], position[THEIR_HAND:COLOUR]]
    held = ""
    for colour in (BLACK, WHITE):
        for letter, count in zip(HAND_LETTERS, hands[colour ^ mover].tolist(), strict=True):
            if count:
                held += f"{count}{letter if colour == BLACK else letter.lower()}"
    return f"{'/'.join(ranks)} {'bw'[mover]} {held or '-'} 1"


def position_of(game):
    """The compact position of a game, as its documentation says, piece by piece."""
    position = np.zeros(100, np.int8)
    mover = game.mover
    for square in range(81):
        letters = game.piece_at(square_name(square))
        if letters is not None:
            piece = PIECE_OF_LETTERS[letters.upper()]
            own = letters.isupper() == (mover == BLACK)
            position[square if mover == BLACK else 80 - square] = piece if own else -piece
    for first, colour in ((OWN_HAND, mover), (THEIR_HAND, 1 - mover)):
        for letter, count in game.hand(colour).items():
            position[first + HAND_LETTERS.index(letter)] = count
    position[COLOUR], position[IN_CHECK] = mover, game.in_check
    position[REPETITIONS] = min(game.repetitions, 3)
    position[PLY_LOW:] = np.array([game.ply % 256, game.ply // 256], np.uint8).view(np.int8)
    return position


def endgames(seed=1, **options):
    """Eight games that begin, perhaps after some plies, where both can mate."""
    starts = {"random_start_share": 0.5, "random_start_plies": 3, "start_sfen": BOTH_CAN_MATE}
    return VectorShogi(8, seed=seed, max_moves=12, threads=1, **{**starts, **options})


@pytest.fixture(scope="module")
def many_endings():
    """Games that begin in the middle, end, and are taken back from their ends."""
    return Rollout(small_config(), 100, games=endgames(rewind_share=0.5, rewind_plies=4))


@pytest.fixture(scope="module")
def short_games():
    """Games from the usual start that are cut after 14 plies and worth the network's value."""
    config = small_config(
        games={"max_moves": 14, "random_start_share": 0.0, "count": 6},
        ppo={"cut_games": "bootstrap"},
    )
    return Rollout(config, 40)


@pytest.fixture(scope="module")
def against_past_selves():
    config = small_config(games={"opponent_share": 0.75})
    return Rollout(config, 60, games=endgames(rewind_share=0.5))


def test_each_stored_action_leads_from_one_stored_position_to_the_next(many_endings):
    buffer = many_endings.buffer
    for step, row in many_endings.steps():
        position = buffer.positions[step, row]
        game = ShogiGame(sfen_of(position), max_moves=None)
        assert game.legal_actions() == many_endings.legal(step, row).tolist()
        game.make_move(int(buffer.actions[step, row]))
        if step + 1 < buffer.filled and not buffer.ends[step, row]:
            following = buffer.positions[step + 1, row]
            assert position_of(game)[: IN_CHECK + 1].tolist() == following[: IN_CHECK + 1].tolist()
    assert buffer.ends.sum() > 20


def test_games_from_the_start_replay_whole(short_games):
    buffer = short_games.buffer
    for row in range(buffer.games):
        game = ShogiGame(max_moves=14)
        for step in range(buffer.filled):
            assert position_of(game).tolist() == buffer.positions[step, row].tolist()
            game.make_move(int(buffer.actions[step, row]))
            outcome = game.outcome()
            assert buffer.ends[step, row] == (outcome is not None)
            if outcome is not None:
                assert buffer.truncations[step, row] == (outcome.reason == Reason.MAX_MOVES)
                game = ShogiGame(max_moves=14)
    assert buffer.truncations.sum() >= 2 * buffer.games


def test_a_reward_is_the_result_for_the_player_who_moved(many_endings):
    buffer = many_endings.buffer
    assert not buffer.rewards[~buffer.ends].any()
    winners = []
    for step, row in np.argwhere(buffer.ends & ~buffer.truncations):
        game = ShogiGame(sfen_of(buffer.positions[step, row]), max_moves=None)
        mover = game.mover
        game.make_move(int(buffer.actions[step, row]))
        outcome = game.outcome()
        if outcome is None:  # a repetition, which one position does not tell
            continue
        assert outcome.winner == mover
        assert buffer.rewards[step, row] == 1
        winners.append(outcome.winner)
    assert set(winners) == {BLACK, WHITE}


class ScriptedAgent:
    """Plays given moves in the only game."""

    version = 0

    def __init__(self, moves):
        self._moves = iter(moves)

    def select_actions(self, positions, legal, counts, fractions, *, temperature, answer):
        action = PolicyOutputMapper.action_of(next(self._moves), int(positions[0, COLOUR]))
        return Choice(np.array([action]), np.zeros(1, np.float32), np.zeros(1, np.float32))

    def ask(self, positions, *_):
        return Answer(torch.zeros(1), torch.zeros(len(positions)), self.version)


@pytest.mark.parametrize(
    ("sfen", "moves", "reward"),
    [
        ("4k4/9/9/9/5R3/9/9/9/4K4 b - 1", ["4e5e", "5a4a", "5e4e", "4a5a"], 1),
        ("4k4/9/9/9/4R4/9/9/9/4K4 w - 1", ["5a4a", "5e4e", "4a5a", "4e5e"], -1),
    ],
)
def test_perpetual_check_loses_whoever_moves_last(sfen, moves, reward):
    config = small_config(games={"count": 1})
    collector = serial(config, ScriptedAgent(moves * 3))
    collector.groups[0].games = VectorShogi(1, start_sfen=sfen, threads=1)
    buffer = ExperienceBuffer(12, 1)
    statistics = collector.collect(buffer)[1]
    assert buffer.rewards[:, 0].tolist() == [0] * 11 + [reward]
    assert (statistics.black_wins, statistics.white_wins) == (0, 1)  # black gave the checks
    assert statistics.reasons == {"perpetual_check": 1}


def assert_played_by(agent, rollout, where):
    """That log-probabilities and values of the steps `where` are those of the agent."""
    buffer = rollout.buffer
    with torch.no_grad():
        logits, values = agent.model(torch.from_numpy(buffer.positions[where]))
    assert buffer.values[where] == pytest.approx(values.numpy(), abs=1e-5)
    for (step, row), of_step in zip(np.argwhere(where), logits.numpy(), strict=True):
        legal = rollout.legal(step, row)
        place = legal.tolist().index(int(buffer.actions[step, row]))
        expected = np.log(softmax_over_legal(of_step, legal)[place])
        assert buffer.log_probs[step, row] == pytest.approx(expected, abs=1e-4)


def test_probabilities_and_values_are_those_of_the_network_that_played(many_endings):
    assert_played_by(many_endings.agent, many_endings, np.ones_like(many_endings.buffer.ends))
    assert many_endings.buffer.trains.all()
    behind = many_endings.play.games.positions
    assert many_endings.last_values == pytest.approx(many_endings.agent.evaluate_positions(behind))


def test_moves_are_drawn_and_not_always_the_best(many_endings):
    first = (many_endings.plies() == 0) & (many_endings.movers() == BLACK)
    assert np.unique(many_endings.buffer.actions[first]).size > 5


def test_steps_carry_the_version_of_the_weights():
    config = small_config()
    agent = agent_of(config)
    collector = serial(config, agent)
    for agent.version in (0, 7):
        buffer = ExperienceBuffer(2, 8)
        collector.collect(buffer)
        assert (buffer.versions == agent.version).all()


def test_against_a_past_self_the_learner_plays_one_colour_a_game(against_past_selves):
    rollout, buffer = against_past_selves, against_past_selves.buffer
    movers = rollout.movers()
    assert buffer.trains[:, 6:].all()
    changes = 0
    for row in range(6):
        colours = np.where(buffer.trains[:, row], movers[:, row], 1 - movers[:, row])
        ends = buffer.ends[:, row]
        for step, (before, after) in enumerate(pairwise(colours)):
            assert after == (1 - before if ends[step] else before)
        changes += int(ends.sum())
        if ends.any():
            assert set(colours.tolist()) == {BLACK, WHITE}
    assert changes > 20
    first = np.where(buffer.trains[0, :6], movers[0, :6], 1 - movers[0, :6])
    assert first.tolist() == [0, 1] * 3


def test_each_side_of_a_pool_game_is_played_by_its_own_network(against_past_selves):
    rollout = against_past_selves
    assert_played_by(rollout.agent, rollout, rollout.buffer.trains)
    assert_played_by(rollout.pool.opponent, rollout, ~rollout.buffer.trains)


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_may_be_all_games_against_past_selves(count):
    config = small_config(games={"count": count, "opponent_share": 1.0, "random_start_share": 0.0})
    rollout = Rollout(config, 6)
    expected = [(t + row) % 2 == 0 for t in range(6) for row in range(count)]
    assert rollout.buffer.trains.ravel().tolist() == expected


@pytest.mark.parametrize("name", ["many_endings", "short_games", "against_past_selves"])
def test_the_statistics_count_what_is_stored(name, request):
    rollout = request.getfixturevalue(name)
    buffer, statistics = rollout.buffer, rollout.statistics
    movers, plies = rollout.movers(), rollout.plies()
    won, lost = buffer.rewards > 0, buffer.rewards < 0
    assert statistics.steps == len(buffer)
    assert statistics.trained_steps == buffer.trains.sum()
    assert statistics.games == buffer.ends.sum() > 0
    for colour, wins in ((BLACK, statistics.black_wins), (WHITE, statistics.white_wins)):
        by_mover = won & (movers == colour)
        by_other = lost & (movers != colour)
        assert wins == (by_mover | by_other).sum()
    assert statistics.cut == buffer.truncations.sum() == statistics.reasons["max_moves"]
    assert statistics.draws == (buffer.ends & ~buffer.truncations & (buffer.rewards == 0)).sum()
    decided = statistics.black_wins + statistics.white_wins
    assert statistics.games == decided + statistics.draws + statistics.cut
    assert statistics.games == sum(statistics.reasons.values())
    assert statistics.plies == (plies[buffer.ends] + 1).sum()
    assert statistics.legal_moves == buffer.legal_counts.sum()
    assert statistics.games_seconds > 0 < statistics.inference_seconds


def test_a_cut_game_is_worth_the_value_of_its_last_position_when_bootstrapping(short_games):
    buffer = short_games.buffer
    assert not buffer.cut_values[~buffer.truncations].any()
    for row in range(buffer.games):
        game = ShogiGame(max_moves=None)
        for step in range(buffer.filled):
            game.make_move(int(buffer.actions[step, row]))
            if buffer.truncations[step, row]:
                last = position_of(game)[np.newaxis]
                expected = short_games.agent.evaluate_positions(last)[0]
                assert buffer.cut_values[step, row] == pytest.approx(expected, abs=1e-5)
                assert expected != 0
            if buffer.ends[step, row]:
                game = ShogiGame(max_moves=None)


def test_cut_games_have_no_value_when_they_are_draws():
    config = small_config(games={"max_moves": 14, "random_start_share": 0.0})
    rollout = Rollout(config, 20)
    assert rollout.buffer.truncations.sum() == 8
    assert not rollout.buffer.cut_values.any()


def test_the_same_seed_plays_the_same_games_and_another_seed_others():
    def play(seed, threads=1):
        config = small_config(seed=seed, games={"opponent_share": 0.25, "random_start_share": 0.5})
        rollout = Rollout(config, 12, threads=threads)
        return bits(rollout.buffer.get_serializable_batch()), rollout.last_values.tolist()

    first = play(1)
    assert play(1) == first
    assert play(1, threads=2) == first
    assert play(2) != first


def test_a_loaded_collector_plays_on_as_the_first_one():
    config = small_config(games={"opponent_share": 0.5})
    one = Rollout(config, 30, games=endgames(seed=1, rewind_share=0.5))
    other = serial(config, one.agent, one.pool)
    other.groups[0].games = endgames(seed=2, rewind_share=0.5)
    other.load_state({name: array.copy() for name, array in one.collector.state().items()})
    batches = []
    for collector in (one.collector, other):
        buffer = ExperienceBuffer(30, 8)
        collector.collect(buffer)
        batches.append(bits(buffer.get_serializable_batch()))
        assert buffer.ends.any()
    assert batches[0] == batches[1]


def test_the_board_shown_is_that_of_the_last_game(many_endings):
    position = many_endings.play.games.positions[-1]
    assert many_endings.collector.board() == str(ShogiGame(sfen_of(position)))


def test_games_follow_the_settings():
    games = {"count": 200, "random_start_share": 0.5, "random_start_plies": 40, "max_moves": 20}
    config = small_config(games=games)
    games = serial(config, agent_of(config)).groups[0].games
    assert games.max_moves == 20
    plies = games.ply
    assert plies.max() == 19  # the move limit comes before the 40 plies
    assert 70 <= (plies > 0).sum() <= 130


def test_results_against_past_selves_are_counted_for_the_learner():
    config = small_config(games={"opponent_share": 0.5})
    rollout = Rollout(config, 100, games=endgames())
    buffer, met = rollout.buffer, slice(4)
    ends, rewards = buffer.ends[:, met], buffer.rewards[:, met]
    won = ends & (rewards != 0) & ((rewards > 0) == buffer.trains[:, met])
    drawn = ends & (rewards == 0)
    statistics = rollout.statistics
    assert (statistics.pool_games, statistics.pool_wins, statistics.pool_draws) == (
        ends.sum(),
        won.sum(),
        drawn.sum(),
    )
    assert won.any()
    assert drawn.any()
