"""The loop: what happens when, what is written where, and how it ends."""

from collections import Counter

import pytest

from keisei.core.ppo_agent import NonFiniteLossError
from keisei.shogi.notation.conversion import read_games
from keisei.shogi.notation.records import Ending
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.checkpoint_format import load_checkpoint
from tests.core.small import BOTH_CAN_MATE, bits, one_thread
from tests.training.small_run import InterruptingDisplay, Run, StubEvaluator


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


def test_evaluations_and_checkpoints_come_at_their_intervals_and_at_the_end(tmp_path):
    run = Run(tmp_path, updates=10, evaluator=StubEvaluator(0.5), checkpoints=3, evaluations=4)
    assert run.go()
    assert run.trainer.updates == 10
    # 4 is the best of the evaluations, and 10 the end.
    assert run.saved() == [3, 4, 6, 9, 10]
    assert run.evaluator.asked == [
        (4, "random", 6, 9),
        (8, "random", 6, 13),
        (10, "random", 8, 15),
    ]


def test_what_is_due_after_the_last_update_is_the_final_evaluation_alone(tmp_path):
    run = Run(tmp_path, updates=8, checkpoints=4, evaluations=4)
    run.go()
    assert [(version, games) for version, _, games, _ in run.evaluator.asked] == [(4, 6), (8, 8)]


def test_every_opponent_is_played_and_their_win_rates_decide_together(tmp_path):
    evaluator = StubEvaluator(0.9, 0.0, 0.5, 0.5, 0.9, 0.05)
    run = Run(
        tmp_path, updates=6, evaluator=evaluator, evaluations=2, opponents=("random", "greedy")
    )
    run.go()
    assert [name for _, name, _, _ in evaluator.asked] == ["random", "greedy"] * 3
    assert run.store.best().name == "update-00000004"
    assert run.trainer.best_score == 1.0


def test_the_best_checkpoint_is_kept_when_later_ones_are_not_better(tmp_path):
    evaluator = StubEvaluator(0.2, 0.7, 0.7, 0.1)
    run = Run(tmp_path, updates=8, evaluator=evaluator, checkpoints=1, evaluations=2, keep=1)
    run.go()
    assert run.store.best().name == "update-00000004"
    assert run.saved() == [4, 8]
    best = load_checkpoint(run.store.best())
    assert best.state["best_score"] == 0.7
    assert best.state["updates"] == 4
    assert load_checkpoint(run.store.paths()[-1]).state["best_score"] == 0.7


def test_the_last_checkpoint_is_the_trainer_as_it_ended(tmp_path):
    run = Run(tmp_path, updates=3)
    run.go()
    checkpoint, damaged = run.store.newest()
    tensors, state = run.trainer.state()
    assert damaged == []
    assert checkpoint.state == state
    assert bits(checkpoint.tensors) == bits(tensors)


def test_every_update_is_logged_once_and_evaluations_beside_them(tmp_path):
    run = Run(tmp_path, updates=5, evaluator=StubEvaluator(0.25, 0.75), evaluations=3)
    run.go()
    updates = [entry for entry in run.metrics() if "steps" in entry]
    assert [entry["update"] for entry in updates] == [1, 2, 3, 4, 5]
    assert [entry["steps"] for entry in updates] == [16, 32, 48, 64, 80]
    for name in ("loss", "entropy", "kl", "learning_rate", "legal_moves", "steps_per_second"):
        assert all(isinstance(entry[name], float) for entry in updates), name
    matches = [entry for entry in run.metrics() if "steps" not in entry]
    assert [(entry["update"], entry["evaluation/random/win_rate"]) for entry in matches] == [
        (3, 0.25),
        (5, 0.75),
    ]


def test_a_rating_on_the_ladder_is_logged_with_each_evaluation(tmp_path):
    run = Run(tmp_path, updates=2, evaluations=1, ladder_games=10)
    run.go()
    ratings = [entry for entry in run.metrics() if "evaluation/ladder/rating" in entry]
    assert [entry["update"] for entry in ratings] == [1, 2]
    for entry in ratings:
        low, high = (entry[f"evaluation/ladder/rating_{end}"] for end in ("low", "high"))
        assert low < entry["evaluation/ladder/rating"] < high


def test_sample_games_are_saved_as_kif_that_can_be_read(tmp_path):
    run = Run(tmp_path, updates=3, evaluations=2, sample_games=2)
    run.go()
    files = sorted(path.name for path in run.folder.games.iterdir())
    assert files == [
        f"update-0000000{update}-random-{number}.kif" for update in (2, 3) for number in (1, 2)
    ]
    (game,) = read_games(run.folder.games / files[1])
    assert [move.usi for move in game.moves] == ["7g7f", "3c3d"]
    assert (game.headers["black"], game.ending) == ("game 1", Ending.RESIGN)


def test_no_games_are_saved_when_none_are_wanted(tmp_path):
    run = Run(tmp_path, updates=2, sample_games=0)
    run.go()
    assert list(run.folder.games.iterdir()) == []


def test_the_display_sees_every_update_and_every_evaluation(tmp_path):
    run = Run(tmp_path, updates=4, evaluator=StubEvaluator(0.5, 1.0), evaluations=2)
    run.go()
    shown = run.display.snapshots
    assert [snapshot.updates for snapshot in shown] == [1, 2, 2, 3, 4, 4]
    last = shown[-1]
    assert last.run == run.folder.path.name
    assert (last.steps, last.total_steps) == (64, 64)
    assert last.eta_seconds == 0
    assert last.evaluations == ["update 2: vs random: 50%", "update 4: vs random: 100%"]
    assert "to move" in last.board
    assert last.steps_per_second > 0
    assert len(last.history["loss"]) == 4
    assert last.figures["loss"] == last.history["loss"][-1]
    assert sum(last.shares.values()) == pytest.approx(1)
    assert run.display.messages == []


def test_the_display_sees_all_games_of_this_sitting(tmp_path):
    run = Run(tmp_path, updates=6)
    collect, seen = run.trainer.collect, []

    def count():
        seen.append(collect())
        return seen[-1]

    run.trainer.collect = count
    games = VectorShogi(4, start_sfen=BOTH_CAN_MATE, max_moves=6, threads=1)
    run.trainer.collector.groups[0].games = games
    run.go()
    last = run.display.snapshots[-1]
    assert last.games == sum(rollout.games for rollout in seen) == run.trainer.games > 0
    for name in ("black wins", "white wins", "draws", "cut"):
        counts = [getattr(rollout, name.replace(" ", "_")) for rollout in seen]
        assert last.results[name] == sum(counts)
    assert Counter(last.reasons) == sum((rollout.reasons for rollout in seen), Counter())


class FailingAgent:
    """Makes chosen updates of an agent meet a loss that is not a number."""

    def __init__(self, trainer, failing):
        self._update, self._trainer, self._failing = trainer.agent.update, trainer, failing
        trainer.agent.update = self

    def __call__(self, buffer, progress):
        if self._trainer.updates + 1 in self._failing:
            raise NonFiniteLossError("value_loss is nan")
        return self._update(buffer, progress)


def test_two_bad_updates_in_a_row_are_told_and_survived(tmp_path):
    run = Run(tmp_path, updates=7)
    FailingAgent(run.trainer, failing={1, 2, 4, 5, 7})
    assert run.go()
    assert run.display.messages == [
        f"Update {number}: value_loss is nan" for number in (1, 2, 4, 5, 7)
    ]
    updates = [entry for entry in run.metrics() if "steps" in entry]
    assert [entry["update"] for entry in updates] == [1, 2, 3, 4, 5, 6, 7]
    assert [entry["update"] for entry in updates if "loss" in entry] == [3, 6]


def test_three_bad_updates_in_a_row_end_the_run_with_the_error(tmp_path):
    run = Run(tmp_path, updates=20, checkpoints=2)
    FailingAgent(run.trainer, failing={4, 5, 6, 7, 8})
    with pytest.raises(NonFiniteLossError, match="value_loss is nan"):
        run.go()
    assert run.trainer.updates == 6
    assert len(run.display.messages) == 3
    assert run.saved() == [2, 4]
    assert run.evaluator.asked == [(3, "random", 6, 9)]


def test_a_network_full_of_nonsense_ends_the_run_by_itself(tmp_path):
    run = Run(tmp_path, updates=20)
    run.trainer.agent.model.stem.weight.data.fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match="policy_loss is nan and value_loss is nan"):
        run.go()
    assert run.trainer.updates == 3


def test_ctrl_c_finishes_the_step_saves_and_ends(tmp_path):
    run = Run(tmp_path, updates=50)
    run.display = InterruptingDisplay(5)
    assert run.go() is False
    assert run.trainer.updates == 5
    assert run.saved()[-1] == 5
    assert run.display.messages == [
        "Stopping after this step; Ctrl-C again stops at once, unsaved."
    ]
    assert [games for _, _, games, _ in run.evaluator.asked] == [6]  # no final evaluation


def test_a_stop_with_the_last_update_is_still_an_end(tmp_path):
    run = Run(tmp_path, updates=3)
    run.display = InterruptingDisplay(3)
    assert run.go() is True
    assert run.saved()[-1] == 3
