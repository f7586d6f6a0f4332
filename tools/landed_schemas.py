"""What the JSON Schemas that `--schema` prints have promised: `python -m tools.landed_schemas` adds
what is new.

A line for each property: its path, its types, and `!` if it is always there. A line stays for good,
because a program may rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.commands.schemas.catalog import FORMS, schema
from tests.support.corpus import DATA

LANDED = DATA / "landed_schemas.txt"


def schemas() -> dict[str, dict[str, Any]]:
    return {name: schema(name) for name in sorted(FORMS)}


def promised() -> list[str]:
    """The lines of all schemas of today."""
    return [f"{name} {line}" for name, schema in schemas().items() for line in lines("$", schema)]


def landed() -> list[str]:
    """The lines that were ever promised."""
    return LANDED.read_text().splitlines()


def lines(path: str, schema: dict[str, Any], is_there: str = "") -> Iterator[str]:
    """The line of a schema, and those of its parts."""
    types = schema.get("type", [])
    named = "|".join(sorted([types] if isinstance(types, str) else types)) or "any"
    if "anyOf" not in schema:
        yield f"{path} {named}{is_there}"
    for each in schema.get("anyOf", ()):
        yield from lines(path, each, is_there)
    if "items" in schema:
        yield from lines(f"{path}[]", schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        yield from lines(f"{path}.*", schema["additionalProperties"])
    for name, each in schema.get("properties", {}).items():
        yield from lines(f"{path}.{name}", each, "!" if name in schema["required"] else "")


if __name__ == "__main__":
    LANDED.write_text("".join(f"{line}\n" for line in sorted({*landed(), *promised()})))
