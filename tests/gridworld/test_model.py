import numpy as np
import pytest

from keisei.gridworld.model import FixedModel, HumanPlayer, RandomModel, ScriptedModel

STATES = np.zeros((4, 3), np.float32)


def random_model(seed=1, actions=5):
    return RandomModel((3,), actions, copies=4, seed=seed)


def drawn(model, times=20):
    return [model.take_action(STATES).tolist() for _ in range(times)]


def test_a_random_model_takes_every_action_equally_often_in_every_copy():
    actions = np.array(drawn(random_model(), 2500))
    assert actions.shape == (2500, 4)
    for copy in range(4):
        shares = np.bincount(actions[:, copy], minlength=5) / 2500
        assert abs(shares - 0.2).max() < 5 * (0.16 / 2500) ** 0.5
    assert abs(np.corrcoef(actions.T) - np.eye(4)).max() < 0.1


def test_a_random_model_repeats_with_its_seed_and_not_with_another():
    assert drawn(random_model(7)) == drawn(random_model(7))
    assert drawn(random_model(7)) != drawn(random_model(8))


def test_a_random_model_goes_on_from_its_state():
    model, other = random_model(1), random_model(2)
    drawn(model)
    other.load_state(*model.state())
    assert drawn(model) == drawn(other)


def test_a_scripted_model_does_what_its_rule_says():
    model = ScriptedModel(lambda states: [row.argmax() for row in states])
    actions = model.take_action(np.eye(3, dtype=np.float32))
    assert (actions.tolist(), actions.dtype) == ([0, 1, 2], np.int64)


def test_a_model_that_does_not_learn_remembers_and_trains_nothing():
    model = FixedModel()
    flags = np.ones(4, bool)
    model.memory.add(STATES, np.zeros(4, int), np.zeros(4, np.float32), flags, flags)
    model.start_epoch_action(0)
    model.end_epoch_action(0)
    assert len(model.memory) == 0
    assert model.train_step() == {}
    assert model.state() == ({}, {})
    model.load_state({}, {})


@pytest.mark.parametrize(
    ("answers", "action"),
    [
        (["right"], 1),
        (["0"], 0),
        (["  Up "], 0),
        (["", "3", "-1", "1.0", "jump", "²", "2"], 2),
    ],
)
def test_a_human_player_answers_by_number_or_name_and_is_asked_again_after_nonsense(
    answers, action
):
    questions, shown, remaining = [], [], iter(answers)

    def ask(question):
        questions.append(question)
        return next(remaining)

    player = HumanPlayer(["up", "right", "down"], ask=ask, show=lambda: shown.append("world"))
    assert player.take_action(STATES[:1]).tolist() == [action]
    assert questions == ["action (0 up, 1 right, 2 down): "] * len(answers)
    assert shown == ["world"]


def test_a_human_player_is_asked_for_every_copy():
    answers = iter(["up", "2"])
    player = HumanPlayer(["up", "right", "down"], ask=lambda _: next(answers))
    assert player.take_action(STATES[:2]).tolist() == [0, 2]
