"""`LearningRecord` and `most_experienced`: rests that grow, and who is next."""

import pytest

from keisei.gridworld.parallel_records import LearningRecord, most_experienced
from tests.gridworld.learning_doubles import Classroom, Pupil, TiredMeadow, parallel_game
from tests.gridworld.parallel_games import BESIDE, pupils_game
from tests.gridworld.small_worlds import handing_out

pytestmark = pytest.mark.timeout(240)


def test_rests_grow_with_failures_in_a_row_and_end_with_a_lesson():
    record = LearningRecord()
    assert [record.failed(10) for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert record.rests(73)
    assert not record.rests(74)
    record.learned({"loss": 1.0}, 80)
    assert record.failed(81) == 1


def test_figures_are_told_with_their_age_and_not_before_there_are_any():
    record = LearningRecord()
    assert record.told(5) == {}
    record.learned({"loss": 1.0}, 3)
    assert record.told(5) == {"loss": 1.0, "staleness": 2.0}


def lived(*steps):
    records = [LearningRecord() for _ in steps]
    for record, its_steps in zip(records, steps, strict=True):
        record.lived(its_steps)
    return records


def test_those_with_most_new_experience_come_first_and_of_equals_the_first():
    records = lived(5, 9, 7, 9, 9)
    assert most_experienced(records, range(5), None) == [0, 1, 2, 3, 4]
    assert most_experienced(records, range(5), 2) == [1, 3]
    assert most_experienced(records, [0, 2, 4], 2) == [2, 4]
    assert most_experienced(records, [], 2) == []


def test_what_is_forgotten_still_counts_as_new_experience():
    records = lived(5, 9)
    records[1].settle()
    assert records[1].owed_steps == 0
    assert most_experienced(records, range(2), 1) == [1]


def taught_in_turn(game, pupils, epochs):
    """Which pupils had a lesson in each epoch."""
    lessons, taught = [0] * len(pupils), []
    for _ in range(epochs):
        game.run_experiment(1)
        game.lessons.learner.wait()
        now = [len(pupil.room.lessons) for pupil in pupils]
        taught.append([n for n, count in enumerate(now) if count > lessons[n]])
        lessons = now
    return taught


@pytest.mark.parametrize("backlog", [2, 9])
def test_where_few_learn_at_once_all_have_their_turn(backlog):
    pupils = [Pupil(Classroom()) for _ in range(5)]
    game = pupils_game(*pupils, max_agents_per_lesson=2, backlog=backlog, **BESIDE)
    with game:
        assert taught_in_turn(game, pupils, 5) == [[0, 1], [2, 3], [0, 4], [1, 2], [0, 3]]
        game.finish_lessons()
        assert all(not record.owed_epochs for record in game.lessons.records)
        if backlog == 9:
            assert game.learned_steps == game.collected_steps


def test_who_has_lived_through_most_is_taught_first():
    """The first walker is done after 3 turns, the second after 1 to 5, the third never."""
    pupils = [Pupil(Classroom()) for _ in range(3)]
    game = parallel_game(
        handing_out(*pupils), game=TiredMeadow, max_agents_per_lesson=1, backlog=9, **BESIDE
    )
    with game:
        # 9 and 9 of 36 agent-steps an epoch: it takes four epochs to have as much as the third.
        taught = taught_in_turn(game, pupils, 6)
        assert taught[0] == taught[1] == taught[2] == [2]
        assert [n for epoch in taught for n in epoch].count(2) > 3
        assert any(epoch != [2] for epoch in taught)


def test_runs_in_which_few_learn_at_once_repeat():
    runs = []
    for order in ({"deterministic": True, "num_workers": 2}, {"debug_serial": True}):
        pupils = [Pupil(Classroom()) for _ in range(4)]
        game = pupils_game(*pupils, async_learning=True, max_agents_per_lesson=3, **order)
        with game:
            game.run_experiment_parallel(7)
        runs.append([(pupil.room.lessons, pupil.acted_with) for pupil in pupils])
    assert runs[0] == runs[1]
