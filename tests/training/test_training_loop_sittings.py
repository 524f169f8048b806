"""A run of several sittings: what one could not do the next makes up for, and nothing twice."""

import pytest

from tests.core.small import one_thread
from tests.training.small_run import InterruptingDisplay, Run


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


def evaluated(run):
    """(update, games) of the evaluations of this sitting."""
    return [(version, games) for version, _, games, _ in run.evaluator.asked]


def test_an_evaluation_that_was_due_when_ctrl_c_came_is_made_up_for(tmp_path):
    run = Run(tmp_path, updates=7, evaluations=4)
    run.display = InterruptingDisplay(4)
    assert run.go() is False
    assert evaluated(run) == []
    run.resume()
    assert run.go() is True
    assert evaluated(run) == [(4, 6), (7, 8)]
    matches = [entry["update"] for entry in run.metrics() if "steps" not in entry]
    assert matches == [4, 7]


def test_an_evaluation_that_was_made_is_not_made_again(tmp_path):
    run = Run(tmp_path, updates=7, evaluations=4)
    run.display = InterruptingDisplay(5)
    run.go()
    assert evaluated(run) == [(4, 6)]
    run.resume()
    run.go()
    assert evaluated(run) == [(7, 8)]


def test_a_final_evaluation_that_ctrl_c_prevented_is_made_up_for(tmp_path):
    run = Run(tmp_path, updates=3)
    run.display = InterruptingDisplay(3)
    assert run.go() is True
    assert evaluated(run) == []
    run.resume()
    assert run.go() is True
    assert evaluated(run) == [(3, 8)]


def test_a_finished_run_is_not_evaluated_twice(tmp_path):
    run = Run(tmp_path, updates=4, evaluations=4)
    run.go()
    assert evaluated(run) == [(4, 8)]
    run.resume()
    assert run.go() is True
    assert evaluated(run) == []
    assert run.trainer.updates == 4
    run.resume(updates=6)
    run.go()
    assert evaluated(run) == [(6, 8)]
