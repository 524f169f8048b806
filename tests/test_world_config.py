"""The configuration of a world: a file that names a game, and settings that are mappings."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.config_loading import (
    ConfigError,
    any_config_of,
    config_of,
    dump_config,
    load_any,
    load_config,
)
from keisei.config_reference import settings as settings_of
from keisei.config_schema import Config
from keisei.world_config import LearnerConfig, WorldConfig

# What is read


def test_a_file_that_names_a_game_is_of_a_world_and_others_are_of_shogi(config_file):
    world = load_any(config_file("game: tag\ncopies: 3\nlearner: {kind: iqn}\n"))
    assert world == WorldConfig(game="tag", copies=3, learner=LearnerConfig(kind="iqn"))
    assert load_any(config_file("seed: 3\n")) == Config(seed=3)


def test_the_shipped_treasurehunt_is_found_by_its_name():
    config = any_config_of(["treasurehunt", "seed=5"])
    assert isinstance(config, WorldConfig)
    assert (config.game, config.name, config.seed) == ("treasurehunt", "treasurehunt", 5)


def test_a_game_of_other_code_needs_no_file_of_settings():
    config = load_any("games/my.py:Meadow", ["copies=2"])
    assert (config.game, config.name, config.copies) == (
        "games/my.py:Meadow",
        "games-my-py-Meadow",
        2,
    )
    config = load_any("pettingzoo:mpe2.simple_v3:parallel_env")
    assert config.name == "pettingzoo-mpe2-simple_v3-parallel_env"


@pytest.mark.parametrize("source", ["_my.py:Meadow", "spiele/größe.py:Wiese", "./.x.py:_A"])
def test_a_game_of_other_code_may_have_any_name(source):
    assert load_any(source).game == source


def test_an_override_puts_a_name_into_a_mapping_and_keeps_the_others(config_file):
    path = config_file("game: tag\nrules: {agents: 2, chance: 0.5}\n")
    config = load_any(path, ["rules.agents=4", "rules.walls=true", "learner.settings.gamma=1"])
    assert config.rules == {"agents": 4, "chance": 0.5, "walls": True}
    assert config.learner.settings == {"gamma": 1}
    assert type(config.rules["agents"]) is int


def test_an_override_of_a_whole_mapping_replaces_it(config_file):
    path = config_file("game: tag\nrules: {agents: 2, chance: 0.5}\n")
    assert load_any(path, ["rules={width: 9}"]).rules == {"width": 9}
    assert load_any(path, ["rules={}"]).rules == {}
    assert load_any(path, ["rules={width: 9}", "rules.agents=3"]).rules == {"width": 9, "agents": 3}


def test_an_override_of_a_section_reaches_the_mapping_in_it(config_file):
    config = load_any(config_file("game: tag\n"), ["learner={settings: {gamma: 0.9}}"])
    assert config.learner.settings == {"gamma": 0.9}


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("1e-3", 0.001), ("true", True), ("off", "off"), ("'3'", "3")],
)
def test_values_in_a_mapping_keep_their_type(config_file, text, value):
    (read,) = load_any(config_file("game: tag\n"), [f"rules.x={text}"]).rules.values()
    assert (read, type(read)) == (value, type(value))


def test_the_widths_of_hidden_layers_can_be_set(config_file):
    config = load_any(config_file("game: tag\n"), ["learner.settings.hidden=[64, 64]"])
    assert list(config.learner.settings["hidden"]) == [64, 64]
    assert load_any(config_file(dump_config(config))) == config


def test_a_mapping_whose_names_are_all_commented_out_is_empty(config_file):
    assert load_any(config_file("game: tag\nrules:\n  # agents: 3\n")).rules == {}


# What is refused


@pytest.mark.parametrize(
    ("text", "overrides", "sentence"),
    [
        ("game: tag\ncopys: 3\n", [], "copys is not a setting; did you mean copies?"),
        ("game: tag\nppo: {clip: 0.1}\n", [], "ppo is not a setting; known are learner, "),
        ("game: tag\ncopies: 0\n", [], "copies is 0, but must be at least 1"),
        ("game: 3\n", [], "game is 3, but must be text, length 1 or more; put it in quotes"),
        ("game: tag\nrules: 3\n", [], "rules is 3, but must be a mapping, each "),
        ("game: tag\nrules: [3]\n", [], "rules is [3], but must be a mapping, each "),
        ("game: tag\nrules: {a: }\n", [], "rules.a is empty, but must be "),
        ("game: tag\nrules: {a: {b: 3}}\n", [], "rules.a is {'b': 3}, but must be "),
        ("game: tag\n", ["rules.a.b=3"], "rules.a.b is not a setting; "),
        ("game: tag\n", ["rules.a="], "rules.a is empty, but must be "),
        ("game: tag\nlearner: {kind: dqn}\n", [], "learner.kind is 'dqn', but must be one of "),
        ("game: tag\nlearner: {setings: {}}\n", [], "learner.setings is not a setting; did you "),
        ("game: tag\nlearner:\n  settings: {a: 1, a: 2}\n", [], "run.yaml: line 3: "),
        ("game: tag\nobserve: later\n", [], "observe is 'later', but must be one of in_turn, "),
        ("game: tag\nname: ../up\n", [], "name is '../up', but must be text, matching "),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(config_file, text, overrides, sentence):
    path = config_file(text)
    with pytest.raises(ConfigError) as refused:
        load_any(path, overrides)
    said = str(refused.value).replace(f"{path.parent}/", "")
    assert said.startswith(sentence)
    assert "\n" not in said


def test_what_is_for_shogi_refuses_a_world(config_file):
    with pytest.raises(ConfigError, match="treasurehunt is a world, and this is for shogi"):
        config_of(["treasurehunt"])
    with pytest.raises(ConfigError, match="game is not a setting"):
        load_config(config_file("game: tag\n"))


def test_a_second_name_is_not_a_setting():
    with pytest.raises(ConfigError, match="'tag' is not a setting: write key=value"):
        any_config_of(["treasurehunt", "tag"])


def test_a_configuration_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(ConfigError, match=r"known are .*treasurehunt"):
        any_config_of(["treasurehunts"])


# Written and read again


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)


def written_and_read(config, folder):
    path = folder / "config.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    return load_any(path)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(names, values, max_size=4), st.dictionaries(names, values, max_size=3))
def test_a_configuration_with_mappings_is_the_same_when_written_and_read(
    tmp_path_factory, rules, learner_settings
):
    config = WorldConfig(
        game="tag", rules=rules, learner=LearnerConfig(settings=learner_settings), name="x"
    )
    again = written_and_read(config, tmp_path_factory.getbasetemp())
    assert again == config
    for one, other in (
        (config.rules, again.rules),
        (config.learner.settings, again.learner.settings),
    ):
        assert {k: type(v) for k, v in one.items()} == {k: type(v) for k, v in other.items()}
        assert list(one) == list(other)


def test_a_written_configuration_explains_every_setting_and_keeps_mappings_on_one_line():
    config = WorldConfig(rules={"agents": 3, "title": "a: b # c"})
    text = dump_config(config)
    assert "\nrules: {agents: 3, title: 'a: b # c'}  # Of the game, by name; " in text
    for key, schema in settings_of(WorldConfig).items():
        assert any(
            line.startswith(f"{'  ' * (len(key) - 1)}{key[-1]}: ")
            and line.endswith(f"  # {schema['description']}")
            for line in text.splitlines()
        )
    assert yaml.safe_load(text) == config.model_dump(mode="json")
