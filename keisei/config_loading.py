"""From a YAML file and `key=value` overrides to a configuration, and back to YAML.

There are two kinds: `Config` for shogi, and `WorldConfig`, which names a `game`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from keisei.config_reference import (
    Key,
    advice_on,
    advice_on_name,
    allowed_values,
    is_mapping,
    json_schema,
    limit_in_words,
    sections,
    settings,
)
from keisei.config_schema import Config, Section
from keisei.world_config import WorldConfig
from keisei.yaml_text import ConfigError, Dumper, FlowMapping, Place, dotted, parse, shown

__all__ = ["ConfigError", "any_config_of", "config_of", "dump_config", "load_any", "load_config"]

Kind = TypeVar("Kind", bound=Section)
Tree = dict[str, object]

_CONFIG_FOLDERS = (Path("configs"), Path(__file__).parents[1] / "configs")


DEFAULT_CONFIG = "shogi-laptop"


def config_of(words: list[str]) -> Config:
    """The shogi config that the words of a command line mean: a name or file, then settings."""
    config = any_config_of(words)
    if isinstance(config, WorldConfig):
        raise ConfigError(f"{config.game} is a world, and this is for shogi")
    return config


def any_config_of(words: list[str]) -> Config | WorldConfig:
    """What the words of a command line mean: a config, or a game in other code, then settings."""
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise ConfigError(f"{names[1]!r} is not a setting: write key=value after the config")
    return load_any(names[0] if names else DEFAULT_CONFIG, [word for word in words if "=" in word])


def load_any(source: str | Path, overrides: Sequence[str] = ()) -> Config | WorldConfig:
    """As `load_config`; a source that names a game is a world's.

    A source with a colon is a game of other code, as the setting `game` has it.
    """
    if isinstance(source, str) and ":" in source and not Path(source).exists():
        tree: Tree = {"game": source, "name": re.sub(r"[^A-Za-z0-9_]+", "-", source).strip("-_")}
    else:
        tree = _read_file(source)
    if "game" in tree:
        return _load(WorldConfig, tree, overrides)
    return _load(Config, tree, overrides)


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The defaults, changed by a file, changed by overrides such as `ppo.learning_rate=3e-4`.

    `source` is the name of a file in `configs/` without its suffix, or a path to a YAML file.
    """
    return _load(Config, _read_file(source), overrides)


def _load(kind: type[Kind], tree: Tree, overrides: Sequence[str]) -> Kind:
    flat = _flat(kind, (), tree)
    # What has all its settings commented out is empty to YAML, and changes nothing.
    groups = {*sections(kind), *(key for key, one in settings(kind).items() if is_mapping(one))}
    values = {key: flat[key] for key in flat if flat[key] is not None or key not in groups}
    for override in overrides:
        values = _changed(kind, values, _read_override(kind, override))
    return _validated(kind, values)


def _changed(
    kind: type[Section], values: dict[Key, object], changes: dict[Key, object]
) -> dict[Key, object]:
    """`values` with changes; names inside a setting that is a mapping are put into it."""
    values = dict(values)
    for key, value in changes.items():
        above, inside = key[:-1], values.get(key[:-1], {})
        if is_mapping(settings(kind).get(above, {})) and isinstance(inside, dict):
            values[above] = {**inside, key[-1]: value}
        else:
            values[key] = value
    return values


def dump_config(config: Section) -> str:
    """The complete configuration as YAML, with what each setting means as a comment."""
    kind, values = type(config), config.model_dump()
    lines = _dumped_settings(kind, (), values)
    for section, meaning in sections(kind).items():
        lines.append(f"\n{'  ' * (len(section) - 1)}{section[-1]}:  # {meaning}\n")
        lines += _dumped_settings(kind, section, values)
    return "".join(lines)


def _dumped_settings(kind: type[Section], section: Key, values: dict[str, Any]) -> list[str]:
    inside = {key: schema for key, schema in settings(kind).items() if key[:-1] == section}
    return [
        _dumped(key, reduce(operator.getitem, key, values), schema["description"])
        for key, schema in inside.items()
    ]


def _dumped(key: Key, value: object, meaning: str) -> str:
    leaf = FlowMapping(value) if isinstance(value, dict) else value
    tree = reduce(lambda inside, name: {name: inside}, reversed(key), leaf)
    text = yaml.dump(tree, Dumper=Dumper, allow_unicode=True, width=math.inf, sort_keys=False)
    line = text.split("\n", len(key) - 1)[-1]  # without the lines of the sections around it
    setting = line.rstrip(" \n")  # other white space may be the value
    return f"{setting}  # {meaning}\n"


def _read_file(source: str | Path) -> Tree:
    try:
        path = _find(source)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        names = {path.stem for folder in _CONFIG_FOLDERS for path in folder.glob("*.yaml")}
        raise ConfigError(
            f"{shown(str(source))} is neither a YAML file nor the name of a configuration; "
            f"known are {', '.join(sorted(names)) or 'none'}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{shown(str(source))} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{shown(str(source))} is not text in UTF-8") from None
    tree = parse(text, lambda line: f"{path}: line {line}")
    if tree is None:  # empty, or nothing but comments
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} holds {shown(tree)}, but must hold settings such as seed: 3")
    return tree


def _find(source: str | Path) -> Path:
    if isinstance(source, str) and re.fullmatch(r"[\w-]+", source):
        for folder in _CONFIG_FOLDERS:
            if (named := folder / f"{source}.yaml").is_file():
                return named
    return Path(source)


def _read_override(kind: type[Section], override: str) -> dict[Key, object]:
    name, equals, text = override.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{override!r} must be key=value, such as ppo.learning_rate=3e-4")
    key = tuple(name.strip().split("."))
    return _flat(kind, key, parse(text, lambda _: repr(override), key))


def _flat(kind: type[Section], key: Key, value: object) -> dict[Key, object]:
    """Single settings: a mapping is taken apart where the schema has a section."""
    if isinstance(value, dict) and (not key or key in sections(kind)):
        flat: dict[Key, object] = {}
        for name, entry in value.items():
            flat |= _flat(kind, (*key, name), entry)
        return flat
    return {key: value}


def _validated(kind: type[Kind], values: Mapping[Key, object]) -> Kind:
    tree: dict[str, Any] = {}
    problems: dict[Place, str] = {}
    for key, value in values.items():
        if key in settings(kind):
            section = reduce(lambda inside, name: inside.setdefault(name, {}), key[:-1], tree)
            section[key[-1]] = _fitted(value, settings(kind)[key])
        else:
            problems[key] = _misplaced(kind, key, value)
    try:
        config = kind.model_validate(tree, strict=True)
    except ValidationError as error:
        for details in error.errors():
            place, sentence = _problem(kind, details)
            problems.setdefault(place, sentence)
    if problems:
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        first = min(problems, key=lambda place: _position(kind, place))
        raise ConfigError(problems[first] + others)
    return config


def _fitted(value: object, schema: Mapping[str, Any]) -> object:
    """`value` where YAML has another type for it: the choice "24" is a number, a tuple a list."""
    if type(value) is int and str(value) in schema.get("enum", ()):
        return str(value)
    if isinstance(value, list) and schema.get("type") == "array":
        return tuple(_fitted(item, schema["items"]) for item in value)
    return value


def _position(kind: type[Section], place: Place) -> int:
    """Where the schema has this setting, or else its innermost section; -1 for neither."""
    for length in range(len(place), 0, -1):
        for index, known in enumerate(settings(kind)):
            if known[:length] == place[:length]:
                return index
    return -1


def _misplaced(kind: type[Section], key: Key, value: object) -> str:
    """A sentence about a key that is not that of a setting."""
    if key in sections(kind):
        example = ".".join(next(known for known in settings(kind) if known[: len(key)] == key))
        return (
            f"{dotted(key)} is {shown(value)}, but must be a section with settings like {example}"
        )
    if tuple(".".join(key).split(".")) in {*settings(kind), *sections(kind)}:
        *above, name = key[-1].split(".")
        path = " and ".join(f"{section}:" for section in above)
        return f"{key[-1]} is not a key in a file; write {name} below {path}"
    return f"{dotted(key)} is not a setting; {advice_on('.'.join(key), kind)}"


def _problem(kind: type[Section], details: ErrorDetails) -> tuple[Place, str]:
    """Where something is wrong, and a sentence about it."""
    place, schema = _located(kind, details["loc"])
    if details["type"] == "value_error":  # settings that contradict each other
        return place, f"{dotted(place)}.{details['ctx']['error']}"
    if details["type"] == "extra_forbidden":  # in a list; elsewhere `_misplaced` has found it
        unknown = (*place, details["loc"][-1])
        advice = advice_on_name(str(unknown[-1]), schema["properties"])
        return unknown, f"{dotted(unknown)} is not a setting; {advice}"
    return place, _refusal(place, schema, details)


def _located(kind: type[Section], location: Place) -> tuple[Place, Mapping[str, Any]]:
    """The known part of Pydantic's location, and its JSON schema.

    What may follow is a name that is not known, or which type of several was tried.
    """
    schema = json_schema(kind)
    for depth, part in enumerate(location):
        names = schema.get("properties", {})
        if is_mapping(schema) and isinstance(part, str):
            return location[: depth + 1], schema["additionalProperties"]
        if isinstance(part, str) and part not in names:
            return location[:depth], schema
        schema = names[part] if isinstance(part, str) else schema["items"]
    return location, schema


_LIMITS = {
    "greater_than_equal": "minimum",
    "greater_than": "exclusiveMinimum",
    "less_than_equal": "maximum",
    "less_than": "exclusiveMaximum",
}


def _refusal(place: Place, schema: Mapping[str, Any], details: ErrorDetails) -> str:
    """A sentence about a value that its setting does not allow."""
    value, allowed = details["input"], allowed_values(schema)
    if details["type"] in _LIMITS and "anyOf" not in schema:
        allowed = limit_in_words(schema, _LIMITS[details["type"]])
    elif details["type"] == "string_type" and isinstance(value, int | float):
        allowed += "; put it in quotes"
    return f"{dotted(place)} is {shown(value)}, but must be {allowed}"
