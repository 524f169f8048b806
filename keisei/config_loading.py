"""From a YAML file and `key=value` overrides to a `Config`, and back to YAML."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
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
    allowed_values,
    limit_in_words,
    sections,
    settings,
)
from keisei.config_schema import Config

_CONFIG_FOLDERS = (Path("configs"), Path(__file__).parents[1] / "configs")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one sentence for the user."""


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
    lines = [_dumped(key, values[key[0]]) for key in settings() if len(key) == 1]
    for section, meaning in sections().items():
        lines.append(f"\n{section}:  # {meaning}\n")
        lines += [_dumped(key, values[section][key[1]]) for key in settings() if key[0] == section]
    return "".join(lines)


def _dumped(key: Key, value: object) -> str:
    tree = {key[-1]: value} if len(key) == 1 else {key[0]: {key[1]: value}}
    text = yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, width=math.inf)
    line = text.split("\n", len(key) - 1)[-1]  # without the section's own line
    return f"{line.rstrip()}  # {settings()[key]['description']}\n"


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
    empty = {key for key, value in tree.items() if value is None and key in sections()}
    return _flat((), {key: value for key, value in tree.items() if key not in empty})


def _find(source: str | Path) -> Path:
    if isinstance(source, str) and re.fullmatch(r"[\w-]+", source):
        for folder in _CONFIG_FOLDERS:
            if (named := folder / f"{source}.yaml").is_file():
                return named
    return Path(source)


def _read_override(override: str) -> dict[Key, object]:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{override!r} must be key=value, such as ppo.learning_rate=3e-4")
    return _flat(tuple(key.strip().split(".")), _parse(text, lambda _: repr(override)))


def _flat(key: Key, value: object) -> dict[Key, object]:
    """Single settings: a mapping is taken apart where the schema has a section."""
    if isinstance(value, dict) and (not key or (len(key) == 1 and key[0] in sections())):
        flat: dict[Key, object] = {}
        for name, entry in value.items():
            flat |= _flat((*key, name), entry)
        return flat
    return {key: value}


def _validated(values: Mapping[Key, object]) -> Config:
    tree: dict[str, Any] = {}
    problems: dict[Key, str] = {}
    for key, value in values.items():
        if key in settings():
            section = tree if len(key) == 1 else tree.setdefault(key[0], {})
            section[key[-1]] = _fitted(value, settings()[key])
        else:
            problems[key] = _misplaced(key, value)
    try:
        config = Config.model_validate(tree, strict=True)
    except ValidationError as error:
        for details in error.errors():
            key = tuple(part for part in details["loc"] if isinstance(part, str))
            problems.setdefault(key, _refusal(key, details))
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


def _position(key: Key) -> int:
    """Where the schema has this setting, or else its section; -1 for neither."""
    order = list(settings())
    if key in settings():
        return order.index(key)
    return next((i for i, known in enumerate(order) if known[0] == key[0]), -1)


def _misplaced(key: Key, value: object) -> str:
    """A sentence about a key that is not that of a setting."""
    if len(key) == 1 and key[0] in sections():
        example = next(".".join(known) for known in settings() if known[0] == key[0])
        return f"{key[0]} is {_shown(value)}, but must be a section with settings like {example}"
    if tuple(".".join(key).split(".")) in settings():
        section, _, name = key[0].partition(".")
        return f"{key[0]} is not a key in a file; write {name} below {section}:"
    return f"{_dotted(key)} is not a setting; {advice_on('.'.join(key))}"


def _dotted(key: Sequence[str]) -> str:
    """A key as people write it, unless it is no name at all."""
    dotted = ".".join(key)
    return dotted if re.fullmatch(r"[\w.-]{1,60}", dotted) else _shown(dotted)


_LIMITS = {
    "greater_than_equal": "minimum",
    "greater_than": "exclusiveMinimum",
    "less_than_equal": "maximum",
    "less_than": "exclusiveMaximum",
}


def _refusal(key: Key, details: ErrorDetails) -> str:
    """A sentence about a value that its setting does not allow."""
    schema, value, verbs = settings()[key], details["input"], ("is", "must")
    if len(details["loc"]) > len(key):
        schema, verbs = schema["items"], ("contains", "each must")
    allowed = allowed_values(schema)
    if details["type"] in _LIMITS:
        allowed = limit_in_words(schema, _LIMITS[details["type"]])
    elif details["type"] == "string_type" and isinstance(value, int | float):
        allowed += "; put it in quotes"
    return f"{'.'.join(key)} {verbs[0]} {_shown(value)}, but {verbs[1]} be {allowed}"


_BRIEF = reprlib.Repr()
_BRIEF.maxstring = 60


def _shown(value: object) -> str:
    """A value as in YAML, shortened to fit a sentence."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return _BRIEF.repr(list(value) if isinstance(value, tuple) else value)


def _parse(text: str, where: Callable[[int], str]) -> object:
    """The value in a YAML text; `where` names a line of it in errors."""
    try:
        node = yaml.compose(text, _Composer)
        return None if node is None else _value(node, ())
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


def _value(node: yaml.Node, path: Key) -> object:
    if node.tag not in (_TEXT, _LIST, _MAPPING):
        raise ComposerError(None, None, f"the tag {node.tag!r} is not supported", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, path) for item in node.value]
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    return _scalar(node.value) if is_plain else node.value


def _mapping(node: yaml.MappingNode, path: Key) -> dict[str, object]:
    """A mapping whose keys are names, each once: PyYAML itself keeps the last of two."""
    values: dict[str, object] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ComposerError(None, None, "a key must be a name", key.start_mark)
        if key.value in values:
            problem = f"{_dotted((*path, key.value))} is given twice"
            raise ComposerError(None, None, problem, key.start_mark)
        values[key.value] = _value(value, (*path, key.value))
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
    return dumper.represent_scalar(_TEXT, text, style=style)


def _list_node(dumper: _Dumper, items: tuple[object, ...]) -> yaml.Node:
    return dumper.represent_sequence(_LIST, items, flow_style=True)


_Dumper.add_representer(str, _text_node)
_Dumper.add_representer(tuple, _list_node)
