"""What the collection waits for when agents learn beside it: snapshots, weights, and its pace."""

from contextlib import contextmanager

import pytest

from keisei.gridworld.parallel_pauses import Pauses
from keisei.gridworld.spans import NoTimeline
from tests.core.small import one_thread
from tests.gridworld.learning_doubles import LEARNERS, Classroom, Pupil, parallel_game, wait_for
from tests.gridworld.parallel_games import BESIDE, pupils_game

pytestmark = pytest.mark.timeout(240)


class Bars:
    """A timeline that keeps the names of its bars, each with those it lies in."""

    def __init__(self):
        self.open, self.closed = [], []

    @contextmanager
    def span(self, name):
        self.open.append(name)
        yield
        self.closed.append(tuple(self.open))
        self.open.pop()

    def close(self):
        pass


@pytest.mark.parametrize("kind", LEARNERS)
def test_at_full_speed_the_collection_pauses_for_snapshots_and_new_weights_alone(kind):
    bars, settings = Bars(), {"async_learning": True, "keep_pace": False}
    with one_thread(), parallel_game(LEARNERS[kind], **settings) as game:
        game.trace_with(bars, NoTimeline)
        game.run_experiment(6)
        assert set(bars.closed) <= {("pause",), ("pause", "snapshot"), ("pause", "publish")}
        assert ("pause", "snapshot") in bars.closed


def test_a_deterministic_run_also_waits_for_the_learner():
    bars, room = Bars(), Classroom()
    with pupils_game(Pupil(room), **BESIDE) as game:
        game.trace_with(bars, NoTimeline)
        game.run_experiment(4)
        kinds = set(bars.closed) - {("pause", "wait")}  # where the learner was not ready
    assert kinds == {("pause",), ("pause", "snapshot"), ("pause", "publish")}


def test_a_learner_that_is_stuck_is_not_waited_for():
    room = Classroom()
    with pupils_game(Pupil(room), async_learning=True, keep_pace=False) as game:
        with room.closed():
            game.run_experiment(5)
            assert game.pauses.longest.keys() == {"pause", "snapshot"}
            wait_for(lambda: room.entered == 1)
        game.finish_lessons()
        assert game.pauses.longest.keys() == {"pause", "snapshot"}  # the end is no pause


def test_the_longest_is_kept_and_figures_are_those_since_they_were_last_asked_for():
    pauses = Pauses()
    assert pauses.figures() == {}
    with pauses.span("pause"), pauses.span("snapshot"):
        pass
    longest = dict(pauses.longest)
    assert longest["pause"] >= longest["snapshot"] > 0
    assert pauses.figures() == {
        "longest_pause": longest["pause"],
        "snapshot_seconds": longest["snapshot"],
    }
    assert pauses.figures() == {}
    with pytest.raises(OSError, match="full"), pauses.span("pause"):
        raise OSError("full")
    assert pauses.figures().keys() == {"longest_pause"}
    for _ in range(2):
        with pauses.span("pace"):
            pass
    assert pauses.figures()["pace_seconds"] >= pauses.longest["pace"] > 0
    assert pauses.figures() == {}
    assert pauses.longest["pause"] >= longest["pause"]


def test_an_epoch_tells_of_the_pauses_since_the_one_before():
    with pupils_game(Pupil(Classroom()), **BESIDE) as game:
        first, *others = game.run_experiment(3)
    assert "longest_pause" not in first.counts
    for result in others:
        assert result.counts["longest_pause"] >= result.counts["snapshot_seconds"] > 0


def test_agents_that_learn_here_make_no_pause():
    with pupils_game(Pupil(Classroom())) as game:
        results = game.run_experiment(3)
    assert [result.counts for result in results] == [{}] * 3
