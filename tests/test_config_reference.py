"""The page of settings is up to date, and every setting on it is read by something."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest

from keisei.config_reference import configuration_page, sections, settings
from keisei.config_schema import Config, Section
from keisei.world_config import WorldConfig

ROOT = Path(__file__).parents[1]
ABOUT_ALL_SETTINGS = {
    "config_schema.py",
    "world_config.py",
    "config_loading.py",
    "config_reference.py",
}
KINDS = (Config, WorldConfig)


def joined(path, name):
    return f"{path}.{name}" if path else name


def sections_by_class(section, path=""):
    yield section.__name__, path
    for name, field in section.model_fields.items():
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from sections_by_class(inner, joined(path, name))


# The section, or "" for the whole, that an object of each class of the schema holds. A setting that
# is a list of mappings stands for its entries too.
HOLDS = dict(entry for kind in KINDS for entry in sections_by_class(kind))


def with_entries():
    """Every setting by its dotted name, those in the mappings of a list among them."""
    for kind in KINDS:
        for key, schema in settings(kind).items():
            yield ".".join(key), schema
            for name, inner in schema.get("items", {}).get("properties", {}).items():
                yield ".".join((*key, name)), inner


ALL_SETTINGS = dict(with_entries())


def test_the_page_is_up_to_date():
    page = ROOT / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == configuration_page(), (
        "docs/configuration.md is stale; run: python -m keisei.config_reference"
    )


def test_the_page_names_every_setting_with_its_range_default_and_meaning():
    page = configuration_page()
    assert "| `games.count` | a whole number, at least 1 | `256` | Games played side" in page
    assert "| `ppo.clip` | a number, above 0, below 1 | `0.2` |" in page
    assert (
        "| `evaluation.opponents` | a list of 1 or more, each text | `[random, greedy]` |" in page
    )
    assert "\n## `training.parallel`\n" in page
    parallel = "| `training.parallel."
    assert f"{parallel}num_workers` | a whole number, at least 1, at most 1024, or auto" in page
    assert f"{parallel}games_per_worker` | a whole number, at least 1, or null | `null` |" in page
    assert f"{parallel}worker_profiles` | a list, each a mapping with any of random_" in page
    assert "| `temperature` | a number, above 0, at most 10 | `1.0` |" in page
    for kind, half in zip(KINDS, page.split("\n# Worlds\n"), strict=True):
        for key, schema in settings(kind).items():
            assert half.count(f"| `{'.'.join(key)}` |") == 1
            assert schema["description"] in half


def test_the_module_writes_the_page():
    page = ROOT / "docs" / "configuration.md"
    before = page.read_bytes()
    try:
        subprocess.run([sys.executable, "-m", "keisei.config_reference"], check=True)
        assert page.read_text(encoding="utf-8") == configuration_page()
    finally:
        page.write_bytes(before)


@pytest.mark.parametrize("name", ALL_SETTINGS)
def test_every_setting_has_a_description_and_a_default(name):
    assert ALL_SETTINGS[name]["description"].endswith(".")
    assert "default" in ALL_SETTINGS[name]


def test_every_section_says_what_it_is_about():
    assert all(meaning.endswith(".") for kind in KINDS for meaning in sections(kind).values())


class SettingReads:
    """Finds, in the sources of a package, which settings are read from objects of the schema.

    A name counts as such an object by its annotation (which mypy demands) or because one was
    assigned to it; so `torch.compile` is no read of `training.compile`. Parameters and variables
    are looked up in their module, attributes and what functions return in all modules.
    """

    def __init__(self, sources):
        self.trees = {name: ast.parse(source) for name, source in sources.items()}
        self.local = {name: defaultdict(set) for name in sources}
        self.shared = defaultdict(set, {name: {section} for name, section in HOLDS.items()})
        while self._bind_all():
            pass

    def in_modules(self, names):
        return {
            joined(section, node.attr)
            for name in names
            for node in ast.walk(self.trees[name])
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            for section in self._held(node.value, self.local[name])
        }

    def _bind_all(self):
        """Bind every name once; whether that taught us anything."""
        tables = [self.shared, *self.local.values()]
        before = sum(len(held) for table in tables for held in table.values())
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                self._bind(node, self.local[name])
        return before < sum(len(held) for table in tables for held in table.values())

    def _bind(self, node, local):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                local[name] |= annotated(annotation)
            case ast.FunctionDef(name=name, returns=ast.expr() as annotation):
                self.shared[name] |= annotated(annotation)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                local[name] |= annotated(annotation)
                self.shared[name] |= annotated(annotation)  # a field, if this is in a class
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                self.shared[name] |= annotated(annotation)
            case (
                ast.Assign(targets=[target], value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                self._assign(target, value, local)
            case (
                ast.For(target=target, iter=entries)
                | ast.comprehension(target=target, iter=entries)
            ):
                self._assign(target, entries, local)

    def _assign(self, target, value, local):
        match target, value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for each, its_value in zip(targets, values, strict=False):
                    self._assign(each, its_value, local)
            case ast.Tuple(elts=targets), ast.Call(args=values):  # as from enumerate and zip
                for each in targets:
                    for its_value in values:
                        self._assign(each, its_value, local)
            case ast.Name(id=name), _:
                local[name] |= self._held(value, local)
            case ast.Attribute(attr=name), _:
                self.shared[name] |= self._held(value, local)

    def _held(self, node, local):
        """The sections ("" for the whole) that an expression may stand for."""
        match node:
            case ast.Name(id=name):
                return local.get(name, set())
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return self.shared.get(name, set())
            case ast.Attribute(value=value, attr=name):
                inside = {joined(section, name) for section in self._held(value, local)}
                return (inside & set(HOLDS.values())) | self.shared.get(name, set())
            case ast.Subscript(value=value):
                return self._held(value, local)
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                return self._held(one, local) | self._held(other, local)
        return set()


def annotated(annotation):
    """The sections that the classes in an annotation hold."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return {HOLDS[name] for name in names if name in HOLDS}


def reads(source):
    return SettingReads({"module": source}).in_modules(["module"])


@pytest.mark.parametrize(
    "source",
    [
        "def f(config: Config):\n    return config.ppo.clip",
        "def f(ppo: PPOConfig):\n    return ppo.clip",
        "def f(ppo: PPOConfig | None):\n    return ppo.clip",
        "def f(config: Config):\n    settings = config.ppo\n    return settings.clip",
        "class A:\n    settings: PPOConfig\n    def f(self):\n        return self.settings.clip",
        "class A:\n    def __init__(self, settings: Config):\n        self._own = settings.ppo\n"
        "    def f(self):\n        return self._own.clip",
        "def f(given: PPOConfig | None):\n    ppo = given or PPOConfig()\n    return ppo.clip",
        "def f(config: Config):\n    return (ppo := config.ppo) and ppo.clip",
        "def load() -> Config: ...\nprint(load().ppo.clip)",
        "def load() -> Config: ...\nconfig = load()\nprint(config.ppo.clip)",
    ],
)
def test_a_read_of_a_setting_is_found(source):
    assert "ppo.clip" in reads(source)


@pytest.mark.parametrize(
    "source",
    [
        "def f(config: Config):\n    return config.training.parallel.seed",
        "def f(training: TrainingConfig):\n    return training.parallel.seed",
        "def f(parallel: ParallelConfig):\n    return parallel.seed",
        "def f(c: Config):\n    games, parallel = c.games, c.training.parallel\n"
        "    return parallel.seed",
    ],
)
def test_a_read_in_a_section_of_a_section_is_found_and_told_from_others_of_its_name(source):
    found = reads(source)
    assert "training.parallel.seed" in found
    assert "seed" not in found


@pytest.mark.parametrize(
    "source",
    [
        "def f(profile: WorkerProfile):\n    return profile.temperature",
        "def f(profiles: tuple[WorkerProfile, ...]):\n    return profiles[0].temperature",
        "def f(training: TrainingConfig):\n"
        "    return training.parallel.worker_profiles[0].temperature",
        "def f(parallel: ParallelConfig):\n    for one in parallel.worker_profiles:\n"
        "        print(one.temperature)",
        "def f(parallel: ParallelConfig):\n    for i, one in enumerate(parallel.worker_profiles):\n"
        "        print(one.temperature)",
        "def f(parallel: ParallelConfig):\n"
        "    return [one.temperature for one in parallel.worker_profiles]",
        "def f(known: bool, parallel: ParallelConfig):\n"
        "    one = parallel.worker_profiles[0] if known else WorkerProfile()\n"
        "    return one.temperature",
    ],
)
def test_a_read_in_an_entry_of_a_list_is_found(source):
    assert "training.parallel.worker_profiles.temperature" in reads(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.clip(x)",
        "def f(ppo):\n    return ppo.clip",
        "def f(games: GamesConfig):\n    return games.clip",
        "def f(config: Config):\n    return config.games.clip",
        "def f(config: Config):\n    return config.clip",
        "def f(config: Config):\n    config.ppo.clip = 3",
        "def f(config: Config):\n    return config.ppo",
        "def f(config: Config):\n    return 'config.ppo.clip'",
        "def f(config: Config):\n    return config.training.parallel.clip",
        "def f(config: Config):\n    return config.training.parallel.worker_profiles[0].clip",
    ],
)
def test_what_only_looks_like_a_read_of_a_setting_is_not(source):
    assert "ppo.clip" not in reads(source)


def test_every_setting_is_read():
    modules = (ROOT / "keisei").rglob("*.py")
    package = SettingReads({path: path.read_text(encoding="utf-8") for path in modules})
    readers = [path for path in package.trees if path.name not in ABOUT_ALL_SETTINGS]
    unread = set(ALL_SETTINGS) - package.in_modules(readers)
    assert not unread, f"nothing reads {', '.join(sorted(unread))}: use it or delete it"
