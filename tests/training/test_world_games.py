"""Games from settings, one's own among them: what is wrong with them is one sentence."""

import pytest

from keisei.gridworld.errors import WorldError
from keisei.training.metrics import read_metrics
from tests.core.small import one_thread
from tests.training.command_line import assert_one_sentence, keisei, logged_updates
from tests.training.tiny_world_runs import TINY, begun, command, refusal, resumed, trained


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


# What is refused


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("rules.agent=3", "agent is not among the rules of treasurehunt; did you mean agents?"),
        ("rules.agents=two", "agents of the rules of treasurehunt is 'two', but must be a whole"),
        ("rules.agents=0", "A game has at least one agent"),
        ("rules.agents=40", "40 different cells are wanted where a copy has only 35"),
        ("rules.window=4", "its size is odd, not 4"),
        ("rules.height=-3", "A world has at least one row"),
        ("learner.settings.gama=1", "the model ppo has no setting 'gama'; it has hidden"),
        ("learner.settings.gamma=2", "ppo.gamma cannot be 2: "),
        ("learner.kind=dqn", "learner.kind is 'dqn', but must be one of ppo, iqn, random"),
        ("game=treasure", "There is no game 'treasure': known are treasurehunt, cleanup, tag"),
        ("game=nothing.py:Game", "The game's file nothing.py does not exist"),
    ],
)
def test_settings_that_are_wrong_are_one_sentence_and_leave_no_folder(tmp_path, setting, sentence):
    assert sentence in refusal(tmp_path, setting)


def test_wrong_rules_on_the_command_line_are_one_sentence_and_leave_no_folder(tmp_path):
    runs = tmp_path / "runs"
    words = ("train", "treasurehunt", *TINY, f"runs_folder={runs}", "rules.windw=4")
    assert_one_sentence(keisei(*words), "windw is not among the rules", "window")
    assert not runs.exists()


def test_a_folder_of_runs_that_was_there_before_stays(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(WorldError):
        begun(tmp_path / "runs", "rules.window=4")
    assert (tmp_path / "runs").is_dir()


# A game of one's own


MY_GAME = '''
"""A corridor with a coin at its end."""
from dataclasses import dataclass
import numpy as np
from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import MovingAgent
from keisei.gridworld.entity import Empty, Entity
from keisei.gridworld.environment import Environment
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World

class Coin(Entity):
    value, passable = 1.0, True

class Walker(MovingAgent):
    pass

class Corridor(Environment):
    @dataclass
    class Rules:
        length: int = 4

    def __init__(self, make_model, rules, *, copies, seed, observe):
        self.rules = rules
        world = World(1, rules.length, [Empty, Coin, Walker], copies=copies, seed=seed)
        super().__init__(world, make_model, max_turns=5, observe=observe, seed=seed)

    def setup_agents(self):
        sight = ObservationSpec(self.world, [Coin])
        return [Walker(sight, ActionSpec(["left", "right"]), self.new_model(sight, 2))]

    def populate_environment(self):
        self.world.place(Coin, self.world.cells_at(0, self.rules.length - 1))
        self.agents[0].put(self.world, self.world.cells_at(0, 0))

    def counts(self):
        return {"coins_left": float(self.world.count(Coin).mean())}
'''


@pytest.fixture
def my_game(tmp_path):
    (tmp_path / "my.py").write_text(MY_GAME)
    return tmp_path / "my.py"


def test_a_game_in_a_file_of_ones_own_is_trained(tmp_path, my_game):
    run = trained(tmp_path / "runs", "rules={length: 3}", "epochs=3", game=f"{my_game}:Corridor")
    assert logged_updates(run) == [1, 2, 3]
    lines = read_metrics(run / "metrics.jsonl")
    assert all(0 <= line["coins_left"] <= 1 for line in lines)
    assert all(line["reward"] == pytest.approx(1 - line["coins_left"]) for line in lines)
    resumed(run, "epochs=4")
    assert logged_updates(run) == [1, 2, 3, 4]


def test_what_is_wrong_with_a_game_of_ones_own_is_one_sentence(tmp_path, my_game):
    words = ("rules={}",)
    assert f"{my_game} has no game Coridor, which would be" in refusal(
        tmp_path, *words, game=f"{my_game}:Coridor"
    )
    assert "has no game Walker" in refusal(tmp_path, *words, game=f"{my_game}:Walker")
    my_game.write_text("import no_such_module_at_all")
    sentence = refusal(tmp_path, *words, game=f"{my_game}:Corridor")
    assert f"{my_game} cannot be run: ModuleNotFoundError: " in sentence
    (tmp_path / "notes.txt").write_text("no Python")
    sentence = refusal(tmp_path, *words, game=f"{tmp_path / 'notes.txt'}:Corridor")
    assert sentence == f"{tmp_path / 'notes.txt'} is not a Python file."


def test_a_game_without_rules_is_told_to_have_some(tmp_path, my_game):
    my_game.write_text(MY_GAME.replace("class Rules", "class Settings"))
    sentence = refusal(tmp_path, "rules={}", game=f"{my_game}:Corridor")
    assert sentence.endswith(
        "my.py:Corridor has no Rules, a dataclass of what can be set; write one."
    )


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("length: int = 4", "length: int"), (", copies, seed, observe)", ", copies, seed)")],
)
def test_a_game_that_cannot_be_made_from_settings_is_one_sentence(tmp_path, my_game, wrong, right):
    my_game.write_text(MY_GAME.replace(wrong, right))
    refusal(tmp_path, "rules={}", game=f"{my_game}:Corridor")


def test_a_game_whose_act_answers_the_wrong_shape_is_one_sentence(tmp_path, my_game):
    wrong = "class Walker(MovingAgent):\n    def act(self, world, action):\n        return 0.0"
    my_game.write_text(MY_GAME.replace("class Walker(MovingAgent):\n    pass", wrong))
    said = command("train", f"{my_game}:Corridor", f"runs_folder={tmp_path}", "epochs=2")
    assert said.exit_code in (1, 2)
    assert said.stderr.startswith("keisei: Walker.act must answer for each copy")
