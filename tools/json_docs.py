"""The reference of all `--json` forms, made of the schemas; `tools.reference` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.commands.schemas.catalog import FORMS, schema

INTRO = """\
# JSON

Each `--json` form has a JSON Schema (2020-12), which the command prints with `--schema`. Schemas only grow: a key keeps
its name, its type and its meaning; new keys may come. A key with `?` may be absent. A line of `--jsonl` is one item of
the array. The same names are columns in [SQL](../sql.md); [Formats](../formats.md) has examples.

```sh
recorder sessions --schema
recorder show --request --schema
```
"""

Schema = dict[str, Any]


def page() -> str:
    """Return the page, with a section for each schema."""
    return "\n".join([INTRO, *(_section(schema(name)) for name in sorted(FORMS))])


def rows(of: Schema, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the keys in a value: the path of each, its type and its meaning."""
    for each in (of, *of.get("anyOf", ())):
        yield from _keys(each, path)
        if "items" in each:
            yield from rows(each["items"], f"{path}[]")


def _keys(of: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    for key, value in of.get("properties", {}).items():
        name = f"{path}.{key}".removeprefix(".").removeprefix("[].")
        absent = "" if key in of.get("required", ()) else "?"
        yield f"{name}{absent}", type_of(value), value.get("description", "")
        yield from rows(value, f"{path}.{key}")
    more = of.get("additionalProperties")
    if isinstance(more, dict):
        name = f"{path}.*".removeprefix(".").removeprefix("[].")
        yield name, type_of(more), more.get("description", "")
        yield from rows(more, f"{path}.*")


def type_of(value: Schema) -> str:
    """Return the types of a value, as a reader says them."""
    if "anyOf" in value:
        return " or ".join(map(type_of, value["anyOf"]))
    stated = value.get("type", "any")
    text = " or ".join(stated) if isinstance(stated, list) else str(stated)
    if "enum" in value:
        return f"{text}: {', '.join(f'`{each}`' for each in value['enum'])}"
    return text


def _section(of: Schema) -> str:
    head = [f"## {of['title']}", "", of["description"], ""]
    lines = [f"| `{path}` | {kind} | {_cell(meaning)} |" for path, kind, meaning in rows(of)]
    if lines:
        head += ["| key | type | meaning |", "|---|---|---|"]
    return "\n".join([*head, *lines, *([""] if lines else [])]).replace("|  |", "| |")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
