"""Configurations from files and overrides: which settings are read, and what values mean."""

from pathlib import Path

import pytest

from keisei.config_loading import load_any, load_config
from keisei.config_schema import Config, ParallelConfig, WorkerProfile

SHIPPED = Path(__file__).parents[1] / "configs"


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
    shipped = sorted(SHIPPED.glob("*.yaml"))
    assert {"shogi-gpu", "shogi-laptop", "treasurehunt"} <= {path.stem for path in shipped}
    for path in shipped:
        assert load_any(path.stem) == load_any(path)
