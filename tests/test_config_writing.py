"""Configurations as they are written: they explain themselves, and read back equal."""

import tempfile

import yaml
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from keisei.config_loading import dump_config, load_config
from keisei.config_reference import settings
from keisei.config_schema import Config, ParallelConfig, WorkerProfile


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
