"""YAML text to plain values and back, by the rules of YAML 1.2; errors are one sentence each."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.reader import ReaderError

# A key, or a place inside a setting: ("training", "parallel", "worker_profiles", 1, "temperature").
Place = tuple[str | int, ...]


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one sentence for the user."""


def dotted(place: Place) -> str:
    """A place as people write it, unless it is no name at all."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    name = "".join(parts).removeprefix(".")
    return name if re.fullmatch(r"[\w.\[\]-]{1,60}", name) else shown(name)


_BRIEF = reprlib.Repr()
_BRIEF.maxstring = 60


def shown(value: object) -> str:
    """A value as in YAML, shortened to fit a sentence."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return _BRIEF.repr(list(value) if isinstance(value, tuple) else value)


def parse(text: str, where: Callable[[int], str], place: Place = ()) -> object:
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
            problem = f"{dotted((*place, key.value))} is given twice"
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


class Dumper(yaml.SafeDumper):
    """Quotes texts that a reader of either version of YAML would take for something else."""


def _text_node(dumper: Dumper, text: str) -> yaml.Node:
    style = None if isinstance(_scalar(text), str) else "'"
    if not text.isprintable():
        style = '"'  # with escapes: line breaks of other alphabets, and spaces that look like none
    return dumper.represent_scalar(_TEXT, text, style=style)


def _list_node(dumper: Dumper, items: tuple[object, ...]) -> yaml.Node:
    return dumper.represent_sequence(_LIST, items, flow_style=True)


Dumper.add_representer(str, _text_node)
Dumper.add_representer(tuple, _list_node)


class FlowMapping(dict[str, object]):
    """A mapping that is written on one line."""


def _mapping_node(dumper: Dumper, mapping: FlowMapping) -> yaml.Node:
    return dumper.represent_mapping(_MAPPING, mapping, flow_style=True)


Dumper.add_representer(FlowMapping, _mapping_node)
