"""The settings in words: which there are, what each may be, and the page that lists them.

`python -m keisei.config_reference` writes `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from keisei.config_schema import Config, Section

# A setting's place: ("seed",) or ("ppo", "clip").
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
"""


@cache
def sections() -> dict[str, str]:
    """What each section is about, by its name, in the order of the schema."""
    return {
        name: (field.annotation.__doc__ or "").partition("\n")[0]
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }


@cache
def settings() -> dict[Key, dict[str, Any]]:
    """The JSON schema of every setting, in the order of the schema."""
    return dict(_walk(Config.model_json_schema()))


def _walk(schema: dict[str, Any]) -> Iterator[tuple[Key, dict[str, Any]]]:
    for name, entry in schema["properties"].items():
        if name in sections():
            section = schema["$defs"][entry["$ref"].rpartition("/")[2]]
            for field, field_schema in section["properties"].items():
                yield (name, field), field_schema
        else:
            yield (name,), entry


def allowed_values(schema: Mapping[str, Any]) -> str:
    """What a setting with this JSON schema may be, such as "a whole number, at least 1"."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    match schema["type"]:
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


def advice_on(unknown: str) -> str:
    """What the writer of an unknown dotted key may have meant, or else which keys there are."""
    known = [*sections(), *(".".join(key) for key in settings())]
    section = f"{unknown.partition('.')[0]}."
    inside = {key.removeprefix(section): key for key in known if key.startswith(section)}
    by_last_name: dict[str, str] = {}
    for key in known:
        last = key.rpartition(".")[2]
        by_last_name[last] = f"{by_last_name[last]} or {key}" if last in by_last_name else key
    for name, candidates in (
        (unknown.removeprefix(section), inside),
        (unknown, {} if inside else {key: key for key in known}),
        (unknown.rpartition(".")[2], by_last_name),
    ):
        if near := difflib.get_close_matches(name, candidates, n=1):
            return f"did you mean {candidates[near[0]]}?"
    return f"known are {', '.join(inside.values() or [key for key in known if '.' not in key])}"


def configuration_page() -> str:
    """The Markdown of `docs/configuration.md`."""
    top = _table([key for key in settings() if len(key) == 1])
    parts = [_INTRODUCTION, "## At the top\n", top]
    for section, meaning in sections().items():
        keys = [key for key in settings() if key[0] == section]
        parts += [f"## `{section}`\n", f"{meaning}\n", _table(keys)]
    return "\n".join(parts)


def _table(keys: list[Key]) -> str:
    rows = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        schema = settings()[key]
        default = _as_yaml(schema["default"])
        cells = (f"`{'.'.join(key)}`", allowed_values(schema), default, schema["description"])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _as_yaml(default: object) -> str:
    if isinstance(default, list):
        return f"`[{', '.join(default)}]`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def main() -> None:
    """Write `docs/configuration.md`."""
    page = Path(__file__).parents[1] / "docs" / "configuration.md"
    page.write_text(configuration_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
