"""From a YAML file and `key=value` overrides to a `Config`, and back to YAML."""

from __future__ import annotations

import math
import operator
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from yaml.composer import ComposerError
from yaml.reader import ReaderError

from keisei.config_reference import (
    Key,
    advice_on,
    advice_on_name,
    allowed_values,
    json_schema,
    limit_in_words,
    sections,
    settings,
)
from keisei.config_schema import Config

# A key, or a place inside a setting: ("training", "parallel", "worker_profiles", 1, "temperature").
Place = tuple[str | int, ...]

_CONFIG_FOLDERS = (Path("configs"), Path(__file__).parents[1] / "configs")


DEFAULT_CONFIG = "shogi-laptop"


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one sentence for the user."""


def config_of(words: list[str]) -> Config:
    """The config that the words of a command line mean: a name or file, then settings."""
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise ConfigError(f"{names[1]!r} is not a setting: write key=value after the config")
    return load_config(
        names[0] if names else DEFAULT_CONFIG, [word for word in words if "=" in word]
    )


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The defaults, changed by a file, changed by overrides such as `ppo.learning_rate=3e-4`.

    `source` is the name of a file in `configs/` without its suffix, or a path to a YAML file.
    """
    values = _read_file(source)
    for override in overrides:
        values |= _read_override(override)
    return _validated(values)


def dump_config(config: Config) -> str:
    """The complete configuration as YAML, with what each setting means as a comment."""
    values = config.model_dump()
    lines = _dumped_settings((), values)
    for section, meaning in sections().items():
        lines.append(f"\n{'  ' * (len(section) - 1)}{section[-1]}:  # {meaning}\n")
        lines += _dumped_settings(section, values)
    return "".join(lines)


def _dumped_settings(section: Key, values: dict[str, Any]) -> list[str]:
    inside = [key for key in settings() if key[:-1] == section]
    return [_dumped(key, reduce(operator.getitem, key, values)) for key in inside]


def _dumped(key: Key, value: object) -> str:
    tree = reduce(lambda inside, name: {name: inside}, reversed(key), value)
    text = yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, width=math.inf, sort_keys=False)
    line = text.split("\n", len(key) - 1)[-1]  # without the lines of the sections around it
    setting = line.rstrip(" \n")  # other white space may be the value
    return f"{setting}  # {settings()[key]['description']}\n"


def _read_file(source: str | Path) -> dict[Key, object]:
    try:
        path = _find(source)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        names = {path.stem for folder in _CONFIG_FOLDERS for path in folder.glob("*.yaml")}
        raise ConfigError(
            f"{_shown(str(source))} is neither a YAML file nor the name of a configuration; "
            f"known are {', '.join(sorted(names)) or 'none'}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{_shown(str(source))} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{_shown(str(source))} is not text in UTF-8") from None
    tree = _parse(text, lambda line: f"{path}: line {line}")
    if tree is None:  # empty, or nothing but comments
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} holds {_shown(tree)}, but must hold settings such as seed: 3")
    # A section whose settings are all commented out is empty to YAML, and changes nothing.
    flat = _flat((), tree)
    return {key: flat[key] for key in flat if flat[key] is not None or key not in sections()}


def _find(source: str | Path) -> Path:
    if isinstance(source, str) and re.fullmatch(r"[\w-]+", source):
        for folder in _CONFIG_FOLDERS:
            if (named := folder / f"{source}.yaml").is_file():
                return named
    return Path(source)


def _read_override(override: str) -> dict[Key, object]:
    name, equals, text = override.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{override!r} must be key=value, such as ppo.learning_rate=3e-4")
    key = tuple(name.strip().split("."))
    return _flat(key, _parse(text, lambda _: repr(override), key))


def _flat(key: Key, value: object) -> dict[Key, object]:
    """Single settings: a mapping is taken apart where the schema has a section."""
    if isinstance(value, dict) and (not key or key in sections()):
        flat: dict[Key, object] = {}
        for name, entry in value.items():
            flat |= _flat((*key, name), entry)
        return flat
    return {key: value}


def _validated(values: Mapping[Key, object]) -> Config:
    tree: dict[str, Any] = {}
    problems: dict[Place, str] = {}
    for key, value in values.items():
        if key in settings():
            section = reduce(lambda inside, name: inside.setdefault(name, {}), key[:-1], tree)
            section[key[-1]] = _fitted(value, settings()[key])
        else:
            problems[key] = _misplaced(key, value)
    try:
        config = Config.model_validate(tree, strict=True)
    except ValidationError as error:
        for details in error.errors():
            place, sentence = _problem(details)
            problems.setdefault(place, sentence)
    if problems:
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(problems[min(problems, key=_position)] + others)
    return config


def _fitted(value: object, schema: Mapping[str, Any]) -> object:
    """`value` where YAML has another type for it: the choice "24" is a number, a tuple a list."""
    if type(value) is int and str(value) in schema.get("enum", ()):
        return str(value)
    if isinstance(value, list) and schema.get("type") == "array":
        return tuple(_fitted(item, schema["items"]) for item in value)
    return value


def _position(place: Place) -> int:
    """Where the schema has this setting, or else its innermost section; -1 for neither."""
    for length in range(len(place), 0, -1):
        for index, known in enumerate(settings()):
            if known[:length] == place[:length]:
                return index
    return -1


def _misplaced(key: Key, value: object) -> str:
    """A sentence about a key that is not that of a setting."""
    if key in sections():
        example = ".".join(next(known for known in settings() if known[: len(key)] == key))
        return (
            f"{_dotted(key)} is {_shown(value)}, but must be a section with settings like {example}"
        )
    if tuple(".".join(key).split(".")) in {*settings(), *sections()}:
        *above, name = key[-1].split(".")
        path = " and ".join(f"{section}:" for section in above)
        return f"{key[-1]} is not a key in a file; write {name} below {path}"
    return f"{_dotted(key)} is not a setting; {advice_on('.'.join(key))}"


def _dotted(place: Place) -> str:
    """A place as people write it, unless it is no name at all."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    dotted = "".join(parts).removeprefix(".")
    return dotted if re.fullmatch(r"[\w.\[\]-]{1,60}", dotted) else _shown(dotted)


def _problem(details: ErrorDetails) -> tuple[Place, str]:
    """Where something is wrong, and a sentence about it."""
    place, schema = _located(details["loc"])
    if details["type"] == "value_error":  # settings that contradict each other
        return place, f"{_dotted(place)}.{details['ctx']['error']}"
    if details["type"] == "extra_forbidden":  # in a list; elsewhere `_misplaced` has found it
        unknown = (*place, details["loc"][-1])
        advice = advice_on_name(str(unknown[-1]), schema["properties"])
        return unknown, f"{_dotted(unknown)} is not a setting; {advice}"
    return place, _refusal(place, schema, details)


def _located(location: Place) -> tuple[Place, Mapping[str, Any]]:
    """The known part of Pydantic's location, and its JSON schema.

    What may follow is a name that is not known, or which type of several was tried.
    """
    schema = json_schema()
    for depth, part in enumerate(location):
        names = schema.get("properties", {})
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
    return f"{_dotted(place)} is {_shown(value)}, but must be {allowed}"


_BRIEF = reprlib.Repr()
_BRIEF.maxstring = 60


def _shown(value: object) -> str:
    """A value as in YAML, shortened to fit a sentence."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return _BRIEF.repr(list(value) if isinstance(value, tuple) else value)


def _parse(text: str, where: Callable[[int], str], place: Place = ()) -> object:
    """The value in a YAML text for `place`; `where` names a line of it in errors."""
    try:
        node = yaml.compose(text, _Composer)
        return None if node is None else _value(node, place)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, problem = (mark.line + 1 if mark else 1), str(error.problem)
        if problem.startswith("but "):  # the sentence began in the context
            problem = f"{error.context}, {problem}"
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(error.character)!r} is not allowed"
    except RecursionError:
        line, problem = 1, "it is nested too deeply"
    raise ConfigError(f"{where(line)}: {problem}")


_TEXT = "tag:yaml.org,2002:str"
_LIST = "tag:yaml.org,2002:seq"
_MAPPING = "tag:yaml.org,2002:map"


class _Composer(yaml.BaseLoader):
    """YAML without aliases, which a few settings do not need and which can grow without bound."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ComposerError(None, None, "aliases such as *name are not supported", mark)
        return super().compose_node(parent, index)


def _value(node: yaml.Node, place: Place) -> object:
    if node.tag not in (_TEXT, _LIST, _MAPPING):
        raise ComposerError(None, None, f"the tag {node.tag!r} is not supported", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*place, index)) for index, item in enumerate(node.value)]
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    return _scalar(node.value) if is_plain else node.value


def _mapping(node: yaml.MappingNode, place: Place) -> dict[str, object]:
    """A mapping whose keys are names, each once: PyYAML itself keeps the last of two."""
    values: dict[str, object] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ComposerError(None, None, "a key must be a name", key.start_mark)
        if key.value in values:
            problem = f"{_dotted((*place, key.value))} is given twice"
            raise ComposerError(None, None, problem, key.start_mark)
        values[key.value] = _value(value, (*place, key.value))
    return values


_NUMBER = re.compile(r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?")


def _scalar(text: str) -> object:
    """A plain value by the rules of YAML 1.2; one too large for a number is left a text.

    PyYAML follows version 1.1, where `off` is false, `3e-4` a text and `010` eight.
    """
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    digits = text.replace("_", "")
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(digits)):
        return text
    return int(digits) if digits.lstrip("+-").isdigit() else float(digits)


class _Dumper(yaml.SafeDumper):
    """Quotes texts that a reader of either version of YAML would take for something else."""


def _text_node(dumper: _Dumper, text: str) -> yaml.Node:
    style = None if isinstance(_scalar(text), str) else "'"
    if not text.isprintable():
        style = '"'  # with escapes: line breaks of other alphabets, and spaces that look like none
    return dumper.represent_scalar(_TEXT, text, style=style)


def _list_node(dumper: _Dumper, items: tuple[object, ...]) -> yaml.Node:
    return dumper.represent_sequence(_LIST, items, flow_style=True)


_Dumper.add_representer(str, _text_node)
_Dumper.add_representer(tuple, _list_node)
