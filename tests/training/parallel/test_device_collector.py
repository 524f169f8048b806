"""Playing and learning on the learner's device, run here on the CPU."""

import numpy as np
import pytest
import torch

from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout
from keisei.core.packed_masks import MASK_BYTES, pack_masks
from keisei.core.ppo_agent import NonFiniteLossError, PPOAgent
from keisei.shogi.features import FEATURE_SETS
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.device_collector import DeviceCollector
from keisei.training.trainer import Trainer
from tests.core.small import SMALL_MODEL, bits, one_thread, opinionated, small_config

CPU = torch.device("cpu")
SEEN = {name: SMALL_MODEL.model_copy(update={"features": name}) for name in FEATURE_SETS}
each_sight = pytest.mark.parametrize("model", SEEN.values(), ids=SEEN)


@pytest.fixture(params=[False, True], ids=["positions", "sets"])
def by_sets(request, monkeypatch):
    """Whether a network sees positions by their sets of squares, as on a GPU, which it is told.

    On a CPU it finds them out by itself, whatever it is told.
    """
    if request.param:
        monkeypatch.setattr("keisei.shogi.features.kernels_can_read", lambda _: False)
        monkeypatch.setattr("keisei.core.res_tower.is_sparse_stem_for", lambda *_: False)
    return request.param


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def device_config(**sections):
    training = {"collector": "device", **sections.pop("training", {})}
    return small_config(training=training, **sections)


class Played:
    """One rollout, and everything that took part."""

    def __init__(self, config, *, agent_seed=0):
        self.agent = opinionated(PPOAgent(config.model, config.ppo, seed=agent_seed))
        self.pool = OpponentPool(config, self.agent) if config.games.opponent_share else None
        if self.pool is not None:
            opinionated(self.pool.opponent, seed=9)  # so that it is told from the learner
        self.policy = DevicePolicy(self.agent)
        self.collector = DeviceCollector(config, self.agent, self.policy, self.pool, threads=1)
        self.features = self.agent.model.features
        shape = config.training.rollout_length, config.games.count, self.features.words
        self.rollout = DeviceRollout(*shape, CPU)
        self.last_values, self.statistics = self.collector.collect(self.rollout)
        self.config = config

    def replayed(self):
        """The same games stepped with the stored moves: (step, positions, masks, games) each."""
        settings = self.config.games
        games = VectorShogi(
            settings.count,
            seed=self.config.seed,
            max_moves=settings.max_moves,
            random_start_share=settings.random_start_share,
            random_start_plies=min(settings.random_start_plies, settings.max_moves - 1),
            threads=1,
        )
        for step in range(self.rollout.steps):
            masks = np.zeros((settings.count, MASK_BYTES), np.uint8)
            pack_masks(games.legal, games.legal_counts, masks)
            yield step, games.positions.copy(), masks, games
            games.random_fractions()
            games.step(self.actions(games, step))

    def actions(self, games, step):
        planes = self.rollout.planes[step].numpy()
        return np.array(
            [
                next(
                    action
                    for action in games.legal[row, : games.legal_counts[row]].tolist()
                    if PolicyOutputMapper.plane_indices[action] == planes[row]
                )
                for row in range(games.num_games)
            ]
        )


def test_what_is_stored_is_what_was_played():
    played = Played(device_config(games={"count": 7, "max_moves": 12, "random_start_plies": 6}))
    rollout = played.rollout
    for step, positions, masks, games in played.replayed():
        assert np.array_equal(rollout.positions[step].numpy(), positions)
        assert np.array_equal(rollout.masks[step].numpy(), masks)
        if step:
            assert np.array_equal(rollout.ends[step - 1], games.reason > 0)
            assert np.array_equal(rollout.rewards[step - 1], games.result)
            assert np.array_equal(rollout.truncations[step - 1], games.truncated)
    assert rollout.ends.any()
    assert rollout.trains.all()


@each_sight
@pytest.mark.parametrize("opponent_share", [0.0, 0.5])
def test_the_sets_of_squares_are_those_of_the_positions(model, opponent_share):
    games = {"count": 7, "max_moves": 12, "opponent_share": opponent_share}
    played = Played(device_config(model=model, games=games))
    rollout = played.rollout
    for step, positions, _, _ in played.replayed():
        assert torch.equal(rollout.sets[step], played.features.sets_of(positions))
    assert len(rollout.sets[-1].unique(dim=0)) == 7
    assert rollout.sets.shape[3] == {"core46": 1, "attack": 1, "tactics": 2}[model.features]


@each_sight
@pytest.mark.usefixtures("by_sets")
def test_log_probabilities_and_values_are_those_of_the_network(model):
    played = Played(device_config(model=model))
    rollout, agent = played.rollout, played.agent
    for step, positions, _, games in played.replayed():
        actions = played.actions(games, step)
        with torch.no_grad():
            logits, values = agent.model(torch.from_numpy(positions))
        for row in range(games.num_games):
            legal = games.legal[row, : games.legal_counts[row]]
            log_probs = logits[row][PolicyOutputMapper.plane_indices[legal]].log_softmax(0)
            chosen = int(np.flatnonzero(legal == actions[row])[0])
            assert float(rollout.log_probs[step, row]) == pytest.approx(
                float(log_probs[chosen]), abs=1e-4
            )
        assert rollout.values[step].numpy() == pytest.approx(values.numpy(), abs=1e-5)
    behind = agent.evaluate_positions(
        np.concatenate([group.self_play.games.positions for group in played.collector._groups])
    )
    assert played.last_values == pytest.approx(behind, abs=1e-5)


@each_sight
def test_answers_and_losses_are_of_the_sets_that_are_told(model, by_sets):
    """Else no test on a CPU would see sets that are wrong."""
    played = Played(device_config(model=model))
    rollout, policy = played.rollout, played.policy
    wrong = rollout.sets.flip(1)
    chosen, weight = torch.arange(rollout.steps * rollout.games), torch.tensor(0.01)

    def answers(sets):
        rollout.sets[:] = sets
        steps = rollout.positions[2], rollout.sets[2], rollout.masks[2]
        answer = policy.choose(*steps, torch.arange(rollout.games), 1.0)
        losses = policy.losses(rollout, chosen, rollout.advantages, weight)
        return (
            answer.log_probs,
            answer.values,
            policy.values(*steps[:2]),
            torch.stack([losses["kl"], losses["value_loss"]]).detach(),
        )

    right = answers(rollout.sets.clone())
    assert torch.equal(right[1], right[2])
    for one, other in zip(right, answers(wrong), strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5) != by_sets


@each_sight
@pytest.mark.usefixtures("by_sets")
def test_a_past_self_moves_where_it_is_its_turn_and_these_steps_do_not_train(model):
    played = Played(device_config(model=model, games={"opponent_share": 0.5}))
    rollout, opponent = played.rollout, played.pool.opponent
    assert 0 < played.statistics.trained_steps == rollout.trains.sum() < rollout.trains.size
    words_seen = 0
    games = VectorShogi(8, seed=played.config.seed, random_start_share=0.25, threads=1)
    for step in range(rollout.steps):
        words = torch.from_numpy((games.random_fractions() * 2.0**32).astype(np.int64))
        masks, positions = rollout.masks[step], rollout.positions[step]
        sets = played.features.sets_of(positions.numpy())
        for player, rows in (
            (played.agent, rollout.trains[step]),
            (opponent, ~rollout.trains[step]),
        ):
            chosen = DevicePolicy(player).choose(positions, sets, masks, words, 1.0)
            assert torch.equal(chosen.planes[rows].short(), rollout.planes[step][rows])
            words_seen += int(rows.sum())
        games.step(played.actions(games, step))
    assert words_seen == rollout.trains.size


@each_sight
@pytest.mark.usefixtures("by_sets")
def test_a_cut_game_is_worth_what_its_last_position_is(model):
    games = {"count": 7, "max_moves": 5, "random_start_plies": 4, "random_start_share": 0.7}
    played = Played(device_config(model=model, games=games, ppo={"cut_games": "bootstrap"}))
    found, expected = [], []
    for step, _, _, games in played.replayed():
        if step and games.truncated.any():
            found += played.rollout.cut_values[step - 1, games.truncated].tolist()
            last = games.final_positions[games.truncated]
            expected += played.agent.evaluate_positions(last).tolist()
    assert found == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 3) for value in found}) > 3


@pytest.mark.parametrize("cut_games", ["draw", "bootstrap"])
def test_cut_games_are_valued_when_they_are_to_be(cut_games):
    config = device_config(
        games={"max_moves": 5, "random_start_share": 0}, ppo={"cut_games": cut_games}
    )
    rollout = Played(config).rollout
    assert rollout.truncations.any()
    assert (rollout.cut_values[~rollout.truncations] == 0).all()
    assert (rollout.cut_values[rollout.truncations] != 0).all() == (cut_games == "bootstrap")


@each_sight
@pytest.mark.usefixtures("by_sets")
def test_an_update_equals_that_of_an_agent_that_learns_from_lists_of_moves(model):
    """The same steps in the same order: the gradients differ by rounding alone."""
    ppo = {"minibatch": 64}
    exact = {"mixed_precision": False}
    trainer = Trainer(device_config(model=model, ppo=ppo, training=exact))
    opinionated(trainer.agent)
    trainer.collect()
    plain = Trainer(small_config(model=model, ppo=ppo, training=exact))
    opinionated(plain.agent)
    fill_from(plain.buffer, trainer)
    plain.steps = trainer.steps
    ours, theirs = trainer.perform_ppo_update(), plain.perform_ppo_update()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-5), name
    gradients = dict(trainer.agent.model.named_parameters())
    for name, parameter in plain.agent.model.named_parameters():
        assert torch.allclose(parameter.grad, gradients[name].grad, atol=1e-6), name
    assert plain.agent.model.policy.weight.grad.any()


def fill_from(buffer, trainer):
    """Put the steps of the trainer's rollout into an `ExperienceBuffer`."""
    rollout, config = trainer.buffer, trainer.config
    games = VectorShogi(config.games.count, seed=config.seed, random_start_share=0.25, threads=1)
    for step in range(rollout.steps):
        games.random_fractions()
        legal, counts = games.legal.copy(), games.legal_counts.copy()
        planes = rollout.planes[step].numpy()
        actions = np.array(
            [
                row[:count][PolicyOutputMapper.plane_indices[row[:count]] == plane][0]
                for row, count, plane in zip(legal, counts, planes, strict=True)
            ]
        )
        games.step(actions.astype(np.int64))
        buffer.add_batch(
            positions=rollout.positions[step].numpy(),
            legal=legal,
            legal_counts=counts,
            actions=actions,
            log_probs=rollout.log_probs[step].numpy(),
            values=rollout.values[step].numpy(),
            rewards=rollout.rewards[step],
            ends=rollout.ends[step],
            truncations=rollout.truncations[step],
            cut_values=rollout.cut_values[step],
            trains=rollout.trains[step],
            versions=0,
        )
    buffer.advantages[:] = rollout.advantages.numpy()
    buffer.returns[:] = rollout.returns.numpy()


def test_a_loss_that_is_not_a_number_leaves_the_weights_as_they_were():
    trainer = Trainer(device_config())
    trainer.collect()
    trainer.buffer.returns[0, 0] = float("nan")
    before = bits(trainer.agent.state()[0])
    with pytest.raises(NonFiniteLossError, match="value_loss is nan"):
        trainer.perform_ppo_update()
    assert bits(trainer.agent.state()[0]) == before
    trainer.collect()
    trainer.perform_ppo_update()
    assert bits(trainer.agent.state()[0]) != before


def test_an_update_stops_when_the_policy_has_moved_too_far():
    ppo = {"minibatch": 4, "learning_rate": 0.3, "target_kl": 1e-6}
    trainer = Trainer(device_config(ppo=ppo))
    opinionated(trainer.agent)
    trainer.collect()
    figures = trainer.perform_ppo_update()
    assert figures["stopped_early"]
    assert 3 <= figures["minibatches"] < 16


def test_a_run_goes_on_exactly_where_it_was_saved():
    config = device_config(games={"opponent_share": 0.25, "opponent_interval": 1})
    unbroken, first = Trainer(config), Trainer(config)
    for _ in range(2):
        for trainer in (unbroken, first):
            trainer.collect()
            trainer.perform_ppo_update()
    tensors, state = first.state()
    resumed = Trainer(config)
    resumed.load_checkpoint(
        SavedState({n: torch.as_tensor(t).clone() for n, t in tensors.items()}, state)
    )
    for trainer in (unbroken, resumed):
        trainer.collect()
        trainer.perform_ppo_update()
    assert bits(resumed.state()[0]) == bits(unbroken.state()[0])


class SavedState:
    """What `load_checkpoint` reads of a checkpoint."""

    def __init__(self, tensors, state):
        self.tensors, self.state = tensors, state


def test_worker_processes_and_the_device_are_not_asked_to_play_the_same_games():
    with pytest.raises(ValueError, match="collector is device, but"):
        Trainer(device_config(training={"parallel": {"enabled": True}}))


def test_a_cpu_plays_in_processes_unless_told_otherwise():
    assert not isinstance(Trainer(small_config()).collector, DeviceCollector)
    assert isinstance(Trainer(device_config()).collector, DeviceCollector)
