"""Configurations from files and overrides, and the sentence for each way they can be wrong."""

import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from keisei.config_loading import ConfigError, dump_config, load_any, load_config
from keisei.config_reference import settings
from keisei.config_schema import Config, ParallelConfig, WorkerProfile

SHIPPED = Path(__file__).parents[1] / "configs"


@pytest.fixture
def config_file(tmp_path):
    def write(text):
        path = tmp_path / "run.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def refusal(config_file):
    """The message for a file and overrides that must be refused, without the file's folder."""

    def message(text, *overrides):
        path = config_file(text)
        with pytest.raises(ConfigError) as refused:
            load_config(path, overrides)
        assert "\n" not in str(refused.value)
        return str(refused.value).replace(f"{path.parent}{os.sep}", "")

    return message


# What is read


def test_an_empty_file_is_the_defaults(config_file):
    assert load_config(config_file("")) == Config()
    assert load_config(config_file("# nothing yet\n")) == Config()
    assert load_config(config_file("ppo:\n  # clip: 0.1\n")) == Config()
    assert load_config(config_file("training:\n  parallel:\n    # mode: sync\n")) == Config()


def test_a_file_changes_only_the_settings_it_names(config_file):
    config = load_config(config_file("seed: 7\nppo:\n  clip: 0.1\n"))
    assert (config.seed, config.ppo.clip) == (7, 0.1)
    assert config.ppo.model_copy(update={"clip": Config().ppo.clip}) == Config().ppo
    assert config.games == Config().games


def test_overrides_win_over_the_file_and_later_ones_over_earlier_ones(config_file):
    path = config_file("seed: 7\nppo: {clip: 0.1, epochs: 3}\n")
    config = load_config(path, ["ppo.clip=0.3", "seed=8", "seed=9"])
    assert (config.seed, config.ppo.clip, config.ppo.epochs) == (9, 0.3, 3)


def test_an_override_replaces_a_value_of_the_file_that_would_be_refused(config_file):
    assert load_config(config_file("games: {count: 0}"), ["games.count=4"]).games.count == 4


def test_an_override_of_a_section_changes_only_the_settings_it_names(config_file):
    config = load_config(config_file("ppo: {clip: 0.1}"), ["ppo={epochs: 3}"])
    assert (config.ppo.clip, config.ppo.epochs) == (0.1, 3)


def test_sections_in_sections_are_merged_setting_by_setting(config_file):
    path = config_file("training:\n  threads: 2\n  parallel:\n    num_workers: 3\n    seed: 5\n")
    config = load_config(
        path, ["training.parallel.seed=6", "training={parallel: {mode: sync}, compile: false}"]
    )
    assert (config.training.threads, config.training.compile) == (2, False)
    assert config.training.parallel == ParallelConfig(num_workers=3, seed=6, mode="sync")


@pytest.mark.parametrize("empty", ["", " null", " ~"])
def test_null_or_nothing_unsets_a_setting_that_may_be_null(config_file, empty):
    path = config_file(f"training:\n  parallel:\n    games_per_worker:{empty}\n    seed: 3\n")
    config = load_config(path, [f"training.parallel.seed={empty}"])
    assert config.training.parallel == ParallelConfig()


PROFILES = (WorkerProfile(temperature=1.2), WorkerProfile(random_start_share=0.5))


@pytest.mark.parametrize(
    "profiles",
    [
        "worker_profiles: [{temperature: 1.2}, {random_start_share: 0.5}]",
        "worker_profiles:\n    - temperature: 1.2\n    - random_start_share: 0.5",
        "worker_profiles:\n    - temperature: 1.2\n      opponent_share: null\n"
        "    - {temperature: 1, random_start_share: 0.5}",
    ],
)
def test_a_list_of_mappings_may_be_written_in_both_styles_of_yaml(config_file, profiles):
    config = load_config(config_file(f"training:\n  parallel:\n    {profiles}\n"))
    assert config.training.parallel.worker_profiles == PROFILES


def test_an_override_replaces_a_list_of_mappings_as_a_whole(config_file):
    path = config_file("training:\n  parallel:\n    worker_profiles: [{opponent_share: 1}]\n")
    override = "training.parallel.worker_profiles=[{temperature: 1.2}, {random_start_share: 0.5}]"
    assert load_config(path, [override]).training.parallel.worker_profiles == PROFILES
    none = load_config(path, ["training.parallel.worker_profiles=[]"])
    assert none.training.parallel.worker_profiles == ()


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("ppo.learning_rate=3e-4", lambda config: config.ppo.learning_rate == 3e-4),
        ("ppo.learning_rate=1E-3", lambda config: config.ppo.learning_rate == 1e-3),
        ("ppo.learning_rate=.5", lambda config: config.ppo.learning_rate == 0.5),
        ("ppo.max_grad_norm=2", lambda config: config.ppo.max_grad_norm == 2),
        (
            "training.total_steps=20_000_000",
            lambda config: config.training.total_steps == 20_000_000,
        ),
        ("seed=010", lambda config: config.seed == 10),
        (
            "evaluation.opponents=[random]",
            lambda config: config.evaluation.opponents == ("random",),
        ),
        ("games.declaration=off", lambda config: config.games.declaration == "off"),
        ("games.declaration=24", lambda config: config.games.declaration == "24"),
        ("games.declaration='27'", lambda config: config.games.declaration == "27"),
        ("logging.wandb=off", lambda config: config.logging.wandb == "off"),
        ("training.compile=false", lambda config: config.training.compile is False),
        ("name=2024-11-15", lambda config: config.name == "2024-11-15"),
        ("name='2024'", lambda config: config.name == "2024"),
        ("runs_folder=a=b", lambda config: config.runs_folder == "a=b"),
        (" seed = 3", lambda config: config.seed == 3),
        (
            "training.parallel.num_workers=4",
            lambda config: config.training.parallel.num_workers == 4,
        ),
        (
            "training.parallel.num_learners=auto",
            lambda config: config.training.parallel.num_learners == "auto",
        ),
        (
            "training.parallel.queue_maxsize=7",
            lambda config: config.training.parallel.queue_maxsize == 7,
        ),
        (
            "training.parallel.seed=null",
            lambda config: config.training.parallel.seed is None,
        ),
    ],
)
def test_values_mean_the_same_in_overrides_and_files(config_file, override, read):
    assert read(load_config(config_file(""), [override]))
    key, _, value = override.partition("=")
    lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(key.strip().split("."))]
    assert read(load_config(config_file("\n".join(lines) + f" {value}")))


def test_a_name_stands_for_a_file_in_configs(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.yaml").write_text("seed: 5")
    monkeypatch.chdir(tmp_path)
    assert load_config("mine").seed == 5
    assert load_config("configs/mine.yaml").seed == 5
    assert load_config(tmp_path / "configs" / "mine.yaml").seed == 5


def test_shipped_configurations_load_by_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in SHIPPED.glob("*.yaml"):
        assert load_any(path.stem) == load_any(path)


# What is refused


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "ppo.learning_rat=3",
            "ppo.learning_rat is not a setting; did you mean ppo.learning_rate?",
        ),
        ("learning_rate=3", "learning_rate is not a setting; did you mean ppo.learning_rate?"),
        ("pp.clip=3", "pp.clip is not a setting; did you mean ppo.clip?"),
        ("ppo.keep=3", "ppo.keep is not a setting; did you mean checkpoints.keep?"),
        ("seed.x=3", "seed.x is not a setting; did you mean seed?"),
        ("ppo.clip.x=3", "ppo.clip.x is not a setting; did you mean ppo.clip?"),
        (
            "interval=3",
            "interval is not a setting; did you mean checkpoints.interval or evaluation.interval?",
        ),
        (
            "checkpoints.qqq=3",
            "checkpoints.qqq is not a setting; known are checkpoints.interval, checkpoints.keep",
        ),
        ("games.count=0", "games.count is 0, but must be at least 1"),
        ("ppo.learning_rate=0", "ppo.learning_rate is 0, but must be above 0"),
        ("model.depth=81", "model.depth is 81, but must be at most 80"),
        ("ppo.clip=1", "ppo.clip is 1, but must be below 1"),
        ("model.features=core47", "model.features is 'core47', but must be one of core46, attack"),
        ("games.count=64.0", "games.count is 64.0, but must be a whole number, at least 1"),
        ("games.count=true", "games.count is true, but must be a whole number, at least 1"),
        ("games.count=yes", "games.count is 'yes', but must be a whole number, at least 1"),
        ("games.count='64'", "games.count is '64', but must be a whole number, at least 1"),
        ("games.count=", "games.count is empty, but must be a whole number, at least 1"),
        ("games.count={}", "games.count is {}, but must be a whole number, at least 1"),
        ("ppo.clip=false", "ppo.clip is false, but must be a number, above 0, below 1"),
        ("ppo.max_grad_norm=.inf", "ppo.max_grad_norm is '.inf', but must be a number, above 0"),
        ("ppo.max_grad_norm=1e999", "ppo.max_grad_norm is '1e999', but must be a number, above 0"),
        ("training.compile=yes", "training.compile is 'yes', but must be true or false"),
        ("training.compile=1", "training.compile is 1, but must be true or false"),
        (
            "runs_folder=2024",
            "runs_folder is 2024, but must be text, length 1 or more; put it in quotes",
        ),
        ("runs_folder=''", "runs_folder is '', but must be text, length 1 or more"),
        ("games.declaration=25", "games.declaration is 25, but must be one of off, 24, 27"),
        (
            "evaluation.opponents=[random, 3, 4]",
            "evaluation.opponents[1] is 3, but must be text; put it in quotes (and 1 more)",
        ),
        (
            "evaluation.opponents=[]",
            "evaluation.opponents is [], but must be a list of 1 or more, each text",
        ),
        (
            "evaluation.opponents=random",
            "evaluation.opponents is 'random', but must be a list of 1 or more, each text",
        ),
        ("ppo=3", "ppo is 3, but must be a section with settings like ppo.learning_rate"),
        ("ppo=", "ppo is empty, but must be a section with settings like ppo.learning_rate"),
        ("seed", "'seed' must be key=value, such as ppo.learning_rate=3e-4"),
        ("=3", "'=3' must be key=value, such as ppo.learning_rate=3e-4"),
        ("seed=[", "'seed=[': expected the node content, but found '<stream end>'"),
        ("ppo={clip: 1, clip: 2}", "'ppo={clip: 1, clip: 2}': ppo.clip is given twice"),
    ],
)
def test_a_wrong_override_gets_one_sentence(refusal, override, sentence):
    assert refusal("", override) == sentence


A_COUNT = "a whole number, at least 1, at most 1024, or auto"
A_PROFILE = "a mapping with any of random_start_share, opponent_share, temperature"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("num_workers=0", f"num_workers is 0, but must be {A_COUNT}"),
        ("num_workers=1025", f"num_workers is 1025, but must be {A_COUNT}"),
        ("num_workers=2.0", f"num_workers is 2.0, but must be {A_COUNT}"),
        ("num_workers=true", f"num_workers is true, but must be {A_COUNT}"),
        ("num_workers=many", f"num_workers is 'many', but must be {A_COUNT}"),
        ("num_workers=", f"num_workers is empty, but must be {A_COUNT}"),
        ("num_learners={a: 1}", f"num_learners is {{'a': 1}}, but must be {A_COUNT}"),
        (
            "games_per_worker=0",
            "games_per_worker is 0, but must be a whole number, at least 1, or null",
        ),
        (
            "games_per_worker=auto",
            "games_per_worker is 'auto', but must be a whole number, at least 1, or null",
        ),
        (
            "rollout_length=[1]",
            "rollout_length is [1], but must be a whole number, at least 1, at most 4096, or null",
        ),
        ("mode=null", "mode is empty, but must be one of sync, async"),
        ("mode={sync: 1}", "mode is {'sync': 1}, but must be one of sync, async"),
        ("max_restarts=null", "max_restarts is empty, but must be a whole number, at least 0"),
        ("max_restarts=-1", "max_restarts is -1, but must be at least 0"),
        (
            "num_worker=3",
            "num_worker is not a setting; did you mean training.parallel.num_workers?",
        ),
        (
            "num_workers.x=3",
            "num_workers.x is not a setting; did you mean training.parallel.num_workers?",
        ),
        ("worker_profiles=", f"worker_profiles is empty, but must be a list, each {A_PROFILE}"),
        (
            "worker_profiles={temperature: 2}",
            f"worker_profiles is {{'temperature': 2}}, but must be a list, each {A_PROFILE}",
        ),
        ("worker_profiles=[{}, 4]", f"worker_profiles[1] is 4, but must be {A_PROFILE}"),
        ("worker_profiles=[null]", f"worker_profiles[0] is empty, but must be {A_PROFILE}"),
        (
            "worker_profiles=[{}, {temprature: 2}]",
            "worker_profiles[1].temprature is not a setting; did you mean temperature?",
        ),
        (
            "worker_profiles=[{heat: 2}]",
            "worker_profiles[0].heat is not a setting; "
            "known are random_start_share, opponent_share, temperature",
        ),
        (
            "worker_profiles=[{temperature: 0}]",
            "worker_profiles[0].temperature is 0, but must be above 0",
        ),
        (
            "worker_profiles=[{temperature: null}]",
            "worker_profiles[0].temperature is empty, but must be a number, above 0, at most 10",
        ),
        (
            "worker_profiles=[{opponent_share: {a: 1}}]",
            "worker_profiles[0].opponent_share is {'a': 1}, "
            "but must be a number, at least 0, at most 1, or null",
        ),
        (
            "worker_profiles=[{opponent_share: 2}, {temprature: 2, temperature: hot}]",
            "worker_profiles[0].opponent_share is 2, "
            "but must be a number, at least 0, at most 1, or null (and 2 more)",
        ),
    ],
)
def test_a_wrong_parallel_setting_gets_the_same_sentence_from_a_file_and_an_override(
    refusal, wrong, sentence
):
    sentence = f"training.parallel.{sentence}"
    assert refusal("", f"training.parallel.{wrong}") == sentence
    key, _, value = wrong.partition("=")
    if "." not in key:
        assert refusal(f"training:\n  parallel:\n    {key}: {value}\n") == sentence


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "training.parallel=3",
            "training.parallel is 3, but must be a section with settings like "
            "training.parallel.enabled",
        ),
        (
            "training={parallel: }",
            "training.parallel is empty, but must be a section with settings like "
            "training.parallel.enabled",
        ),
        (
            "training.num_workers=3",
            "training.num_workers is not a setting; did you mean training.parallel.num_workers?",
        ),
        (
            "training.paralel.num_workers=3",
            "training.paralel.num_workers is not a setting; "
            "did you mean training.parallel.num_workers?",
        ),
        (
            "parallel.num_workers=3",
            "parallel.num_workers is not a setting; did you mean training.parallel.num_workers?",
        ),
        (
            "training.qqq=3",
            "training.qqq is not a setting; known are training.parallel, training.total_steps, "
            "training.rollout_length, training.threads, training.compile, "
            "training.mixed_precision, training.collector",
        ),
        (
            "training.parallel.worker_profiles[0].temperature=2",
            "training.parallel.worker_profiles[0].temperature is not a setting; "
            "did you mean training.parallel.worker_profiles?",
        ),
        (
            "training.parallel.worker_profiles=[{}, {temperature: 1, temperature: 2}]",
            "'training.parallel.worker_profiles=[{}, {temperature: 1, temperature: 2}]': "
            "training.parallel.worker_profiles[1].temperature is given twice",
        ),
    ],
)
def test_a_wrong_override_of_a_section_in_a_section_gets_one_sentence(refusal, override, sentence):
    assert refusal("", override) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "seed: 1\nppo:\n  clip: 0.1: 2\n",
            "run.yaml: line 3: mapping values are not allowed here",
        ),
        ("ppo: [1\n", "run.yaml: line 2: expected ',' or ']', but got '<stream end>'"),
        (
            "seed: 1\n\tname: x",
            "run.yaml: line 2: found character '\\t' that cannot start any token",
        ),
        ("seed: 1\nname: \0", "run.yaml: line 2: the character '\\x00' is not allowed"),
        (
            "seed: 1\n---\nseed: 2",
            "run.yaml: line 2: expected a single document in the stream, "
            "but found another document",
        ),
        ("[" * 5000, "run.yaml: line 1: it is nested too deeply"),
        ("seed: 1\nseed: 2", "run.yaml: line 2: seed is given twice"),
        ("ppo:\n  clip: 0.1\n  clip: 0.1", "run.yaml: line 3: ppo.clip is given twice"),
        ("ppo: {}\ngames: {}\nppo: {}", "run.yaml: line 3: ppo is given twice"),
        ("? [a]\n: 1", "run.yaml: line 1: a key must be a name"),
        ("seed: !!int 3", "run.yaml: line 1: the tag 'tag:yaml.org,2002:int' is not supported"),
        ("a: &a 1\nb: *a", "run.yaml: line 2: aliases such as *name are not supported"),
        ("- seed", "run.yaml holds ['seed'], but must hold settings such as seed: 3"),
        ("seed 3", "run.yaml holds 'seed 3', but must hold settings such as seed: 3"),
        ("ppo: fast", "ppo is 'fast', but must be a section with settings like ppo.learning_rate"),
        ("ppo.clip: 0.1", "ppo.clip is not a key in a file; write clip below ppo:"),
        (
            "training.parallel.mode: sync",
            "training.parallel.mode is not a key in a file; "
            "write mode below training: and parallel:",
        ),
        (
            "training:\n  parallel.mode: sync",
            "parallel.mode is not a key in a file; write mode below parallel:",
        ),
        (
            "training.parallel:\n  mode: sync",
            "training.parallel is not a key in a file; write parallel below training:",
        ),
        (
            "training:\n  parallel:\n    mode: sync\n    mode: sync",
            "run.yaml: line 4: training.parallel.mode is given twice",
        ),
        (
            "training:\n  parallel:\n    worker_profiles:\n      - temperature: 1\n"
            "      - temperature: 1\n        temperature: 2",
            "run.yaml: line 6: training.parallel.worker_profiles[1].temperature is given twice",
        ),
        (
            "training:\n  parallel: fast",
            "training.parallel is 'fast', but must be a section with settings like "
            "training.parallel.enabled",
        ),
        (
            "training:\n  paralel:\n    mode: sync",
            "training.paralel is not a setting; did you mean training.parallel?",
        ),
        ("modle:\n  depth: 3", "modle is not a setting; did you mean model?"),
        ("games: {count: 1e2}", "games.count is 100.0, but must be a whole number, at least 1"),
    ],
)
def test_a_wrong_file_gets_one_sentence(refusal, text, sentence):
    assert refusal(text) == sentence


def test_of_several_errors_the_first_in_the_schema_is_told_and_the_others_counted(refusal):
    text = "logging: 3\nppo:\n  clip: 2\n  gama: 1\ngames:\n  count: 0\n"
    assert refusal(text) == "games.count is 0, but must be at least 1 (and 3 more)"
    assert refusal(text, "games.count=1", "ppo.clip=0.1") == (
        "ppo.gama is not a setting; did you mean ppo.gamma? (and 1 more)"
    )
    assert refusal("seed: -1", "sede=3") == "sede is not a setting; did you mean seed? (and 1 more)"


def test_a_section_given_a_plain_value_stays_wrong_when_its_settings_are_overridden(refusal):
    assert refusal("ppo: 3", "ppo.clip=0.1").startswith("ppo is 3, but must be a section")


def test_in_async_mode_the_policy_lag_must_span_the_updates_between_publications(
    refusal, config_file
):
    text = "training:\n  parallel:\n    max_policy_lag: 1\n    model_sync_interval: 3\n"
    assert refusal(text) == (
        "training.parallel.max_policy_lag is 1, but must be at least model_sync_interval (3) "
        "in async mode"
    )
    assert refusal(text, "seed=-1") == "seed is -1, but must be at least 0 (and 1 more)"
    for remedy in ("max_policy_lag=3", "model_sync_interval=1"):
        load_config(config_file(text), [f"training.parallel.{remedy}"])


def test_in_sync_mode_weights_are_published_after_every_update(refusal):
    text = "training:\n  parallel:\n    mode: sync\n    model_sync_interval: 3\n"
    assert refusal(text) == (
        "training.parallel.model_sync_interval is 3, but must be 1 in sync mode, where every "
        "rollout is played with the newest weights"
    )


def test_there_must_not_be_more_profiles_than_workers(refusal, config_file):
    text = "training:\n  parallel:\n    num_workers: 2\n    worker_profiles: [{}, {}, {}]\n"
    assert refusal(text) == (
        "training.parallel.worker_profiles has 3 entries, but must have at most num_workers (2)"
    )
    for remedy in ("num_workers=3", "num_workers=auto", "worker_profiles=[{}, {}]"):
        load_config(config_file(text), [f"training.parallel.{remedy}"])


def test_long_values_are_shortened(refusal):
    assert len(refusal("", "model.features=" + "x" * 10_000)) < 200
    assert len(refusal("", "seed=" + "9" * 10_000)) < 200
    assert len(refusal("", "x" * 10_000 + "=3")) < 300
    profile = f"{{{'x' * 1000}: 3}}"
    assert len(refusal("", f"training.parallel.worker_profiles=[{profile}]")) < 300
    assert len(refusal("", f"training.parallel.worker_profiles={profile}")) < 300


def test_a_missing_file_names_the_known_configurations(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)
    for source in ("yours", "yours.yaml", tmp_path / "yours.yaml"):
        with pytest.raises(
            ConfigError, match=r"yours.* is neither a YAML file nor .*known are.*mine"
        ):
            load_config(source)


def test_a_file_that_cannot_be_read_says_why(tmp_path, refusal):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    assert "is not text in UTF-8" in refusal(b"name: \xff\xfe")


@hypothesis_settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=20))
@example("ppo: {clip: &a *a}", "a\nb=1")
@example('name: "\\ud800"', 'name="\\ud800"')
def test_whatever_is_written_is_read_or_refused_in_one_line(text, override):
    for source, overrides in ((text, []), ("", [override, f"seed={override}"])):
        with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
            file.write(source.encode(errors="surrogatepass"))
            file.flush()
            message = ""
            try:
                load_config(file.name, overrides)
            except ConfigError as error:
                message = str(error)
            assert message.isprintable()


# What is written


def values_of(schema):
    """A strategy for every value that a setting's JSON schema allows."""
    if "anyOf" in schema:
        return st.one_of([values_of(option) for option in schema["anyOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "null":
        return st.none()
    if schema["type"] == "array":
        return st.lists(values_of(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)
    if schema["type"] == "object":
        fields = {name: values_of(field) for name, field in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=fields)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    if schema["type"] == "string":
        return st.text(st.characters(codec="utf-8"), min_size=schema.get("minLength", 0))
    if schema["type"] == "boolean":
        return st.booleans()
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if schema["type"] == "integer":
        return st.integers(low, high and high - ("exclusiveMaximum" in schema))
    return st.floats(
        low,
        high,
        allow_infinity=False,
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
    )


def without_contradictions(parallel):
    """The settings of `training.parallel`, changed where one bounds another."""
    lag, interval = parallel.get("max_policy_lag", 1), parallel.get("model_sync_interval", 1)
    if parallel.get("mode") == "sync":
        interval = 1
    profiles, workers = parallel.get("worker_profiles", []), parallel.get("num_workers", "auto")
    return parallel | {
        "max_policy_lag": max(lag, interval),
        "model_sync_interval": interval,
        "worker_profiles": profiles if workers == "auto" else profiles[:workers],
    }


def write_and_read(config):
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(dump_config(config).encode())
        file.flush()
        return load_config(file.name)


@hypothesis_settings(deadline=None)
@given(st.fixed_dictionaries({}, optional={k: values_of(v) for k, v in settings().items()}))
@example({("runs_folder",): "1e-3", ("logging", "wandb_project"): "a\n\n b  # c\x85"})
@example({("runs_folder",): "off", ("logging", "wandb_project"): "010"})
@example({("logging", "wandb_project"): "\xa0"})
@example({("runs_folder",): "\x85"})
@example({("runs_folder",): "\u2028 \u3000"})
def test_a_written_configuration_reads_back_equal(values):
    tree = {"training": {"parallel": {}}}
    for (*path, name), value in values.items():
        section = tree
        for part in path:
            section = section.setdefault(part, {})
        section[name] = value
    tree["training"]["parallel"] = without_contradictions(tree["training"]["parallel"])
    config = Config.model_validate(tree)
    assert write_and_read(config) == config


def test_a_written_configuration_explains_every_setting():
    lines = dump_config(Config()).splitlines()
    for key, schema in settings().items():
        assert any(
            line.startswith(f"{'  ' * (len(key) - 1)}{key[-1]}: ")
            and line.endswith(f"  # {schema['description']}")
            for line in lines
        )


def test_a_written_configuration_means_the_same_to_any_reader_of_yaml():
    parallel = {"num_workers": 2, "seed": 5, "worker_profiles": [{"opponent_share": 1e-5}]}
    config = Config.model_validate(
        {
            "ppo": {"learning_rate": 1e-5},
            "runs_folder": "1e-3",
            "training": {"parallel": parallel},
        }
    )
    assert yaml.safe_load(dump_config(config)) == config.model_dump(mode="json")


def test_a_written_configuration_keeps_what_is_unset_automatic_and_in_profiles():
    changed = ParallelConfig(
        num_workers=2,
        queue_maxsize=3,
        worker_profiles=(WorkerProfile(), WorkerProfile(opponent_share=0.5, temperature=2)),
    )
    for parallel in (ParallelConfig(), changed):
        config = Config.model_validate({"training": {"parallel": parallel}})
        assert write_and_read(config) == config
    text = dump_config(config)
    assert "\n  parallel:  # Worker processes that play, and helpers that learn.\n" in text
    assert "\n    num_learners: auto  # " in text
    assert "\n    games_per_worker: null  # " in text
    assert "{random_start_share: null, opponent_share: 0.5, temperature: 2.0}]  # " in text
