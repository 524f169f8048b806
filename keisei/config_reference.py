"""The settings in words: which there are, what each may be, and the page that lists them.

`python -m keisei.config_reference` writes `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from keisei.config_schema import Config, Section
from keisei.world_config import WorldConfig

# A setting's or a section's place: ("seed",), ("ppo", "clip"), ("training", "parallel").
Key = tuple[str, ...]

_LIMIT_WORDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}

_INTRODUCTION = """\
# Configuration

<!-- Written by `python -m keisei.config_reference`; change `keisei/config_schema.py` instead. -->

A run is described by a YAML file. It holds only what differs from the defaults below:

```yaml
name: first-try
games:
  count: 64
ppo:
  learning_rate: 3e-4
evaluation:
  opponents: [random]
```

`keisei train` takes such a file, or the name of one in `configs/` without its `.yaml`, and after it
single settings as `key=value`. These win over the file, and later ones over earlier ones. A value
is written as in the file:

```
keisei train first-try.yaml games.count=128 'evaluation.opponents=[random, greedy]' seed=3
```

The same in Python:

```python
from keisei.config_loading import dump_config, load_config

config = load_config("first-try.yaml", ["games.count=128", "seed=3"])
print(dump_config(config))  # the complete configuration, as YAML with comments
```

Unknown keys, keys given twice, and values of the wrong type or out of range are refused. Only
`true` and `false` are truth values (`yes`, `on` and `off` are text), and `3e-4` is a number.
`null`, or no value at all, is taken only where it is listed as allowed. A list of mappings may be
written in both styles of YAML; as `key=value` it takes the short one:

```
keisei train 'training.parallel.worker_profiles=[{temperature: 1.2}, {random_start_share: 0.5}]'
```
"""

_WORLDS = """\
# Worlds

A file that names a `game` describes a run in a world of many agents ([worlds.md](worlds.md)). It
is written in the same way and has these settings instead. `rules` and `learner.settings` are
mappings whose names depend on the game and on the kind of learner:

```
keisei train treasurehunt rules.agents=4 learner.settings.learning_rate=3e-4
```
"""


@cache
def json_schema(kind: type[Section] = Config) -> dict[str, Any]:
    """The JSON schema of a kind of configuration, its definitions put where it refers to them."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs")
    resolved: dict[str, Any] = _resolved(schema, definitions)
    return resolved


def _resolved(part: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_resolved(entry, definitions) for entry in part]
    if not isinstance(part, dict):
        return part
    definition = definitions.get(part.get("$ref", "").rpartition("/")[2], {})
    return {name: _resolved(entry, definitions) for name, entry in (definition | part).items()}


@cache
def sections(kind: type[Section] = Config) -> dict[Key, str]:
    """What each section is about, in the order of the schema."""
    return {
        key: schema["description"].partition("\n")[0]
        for key, schema in _entries(json_schema(kind))
        if "properties" in schema
    }


@cache
def settings(kind: type[Section] = Config) -> dict[Key, dict[str, Any]]:
    """The JSON schema of every setting, in the order of the schema."""
    entries = _entries(json_schema(kind))
    return {key: schema for key, schema in entries if "properties" not in schema}


def is_mapping(schema: Mapping[str, Any]) -> bool:
    """Whether a setting with this JSON schema holds values by names of any kind."""
    return isinstance(schema.get("additionalProperties"), dict)


def _entries(section: dict[str, Any], place: Key = ()) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Sections and settings, each section before what is in it."""
    for name, schema in section.get("properties", {}).items():
        yield (*place, name), schema
        yield from _entries(schema, (*place, name))


def allowed_values(schema: Mapping[str, Any]) -> str:
    """What a setting with this JSON schema may be, such as "a whole number, at least 1"."""
    if "anyOf" in schema:
        return ", or ".join(allowed_values(option) for option in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    match schema["type"]:
        case "null":
            return "null"
        case "object" if is_mapping(schema):
            return f"a mapping, each {allowed_values(schema['additionalProperties'])}"
        case "object":
            return f"a mapping with any of {', '.join(schema['properties'])}"
        case "boolean":
            return "true or false"
        case "array":
            size = f" of {schema['minItems']} or more" if "minItems" in schema else ""
            return f"a list{size}, each {allowed_values(schema['items'])}"
        case "string":
            return ", ".join(["text", *_text_limits(schema)])
        case "integer":
            return ", ".join(["a whole number", *_number_limits(schema)])
        case _:
            return ", ".join(["a number", *_number_limits(schema)])


def _text_limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "minLength" in schema:
        yield f"length {schema['minLength']} or more"
    if "pattern" in schema:
        yield f"matching `{schema['pattern']}`"


def _number_limits(schema: Mapping[str, Any]) -> list[str]:
    return [limit_in_words(schema, limit) for limit in _LIMIT_WORDS if limit in schema]


def limit_in_words(schema: Mapping[str, Any], limit: str) -> str:
    """One limit of a JSON schema, such as "at least 1" for its `minimum`."""
    number = schema[limit]
    return f"{_LIMIT_WORDS[limit]} {int(number) if number == int(number) else number}"


def advice_on(unknown: str, kind: type[Section] = Config) -> str:
    """What the writer of an unknown dotted key may have meant, or else which keys there are."""
    known = [".".join(key) for key in (*sections(kind), *settings(kind))]
    section = _innermost_section(unknown, kind)
    inside = {key.removeprefix(section): key for key in known if key.startswith(section)}
    by_last_name: dict[str, str] = {}
    for key in known:
        last = key.rpartition(".")[2]
        by_last_name[last] = f"{by_last_name[last]} or {key}" if last in by_last_name else key
    for name, candidates in (
        (unknown.removeprefix(section), inside),
        (unknown.rpartition(".")[2], by_last_name),
    ):
        if near := difflib.get_close_matches(name, candidates, n=1):
            return f"did you mean {candidates[near[0]]}?"
    return f"known are {', '.join(key for name, key in inside.items() if '.' not in name)}"


def _innermost_section(unknown: str, kind: type[Section]) -> str:
    """The longest beginning of a dotted key that is a section, such as "training."; or ""."""
    names = [f"{'.'.join(section)}." for section in sections(kind)]
    return max((name for name in names if unknown.startswith(name)), key=len, default="")


def advice_on_name(unknown: str, known: Iterable[str]) -> str:
    """Which of the known names the writer of an unknown one may have meant, or else all."""
    known = list(known)
    if near := difflib.get_close_matches(unknown, known, n=1):
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(known)}"


def configuration_page() -> str:
    """The Markdown of `docs/configuration.md`."""
    return "\n".join([_INTRODUCTION, *_parts(Config), _WORLDS, *_parts(WorldConfig)])


def _parts(kind: type[Section]) -> Iterator[str]:
    yield "## At the top\n"
    yield from _tables(kind, ())
    for section, meaning in sections(kind).items():
        yield f"## `{'.'.join(section)}`\n"
        yield f"{meaning}\n"
        yield from _tables(kind, section)


def _tables(kind: type[Section], section: Key) -> Iterator[str]:
    """The settings of a section, then what the mappings in its lists may hold."""
    here = {key: schema for key, schema in settings(kind).items() if key[:-1] == section}
    inside = {".".join(key): schema for key, schema in here.items()}
    yield _table(inside)
    for name, schema in inside.items():
        item = schema.get("items", {})
        if "properties" in item:
            yield f"Each entry of `{name}` may hold these. {item['description']}\n"
            yield _table(item["properties"])


def _table(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    rows = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for name, schema in schemas.items():
        default = _as_yaml(schema["default"])
        cells = (f"`{name}`", allowed_values(schema), default, schema["description"])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _as_yaml(default: object) -> str:
    if isinstance(default, list):
        return f"`[{', '.join(default)}]`"
    return f"`{json.dumps(default) if isinstance(default, bool | dict | None) else default}`"


def main() -> None:
    """Write `docs/configuration.md`."""
    page = Path(__file__).parents[1] / "docs" / "configuration.md"
    page.write_text(configuration_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
