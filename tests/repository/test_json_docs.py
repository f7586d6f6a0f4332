"""The reference of JSON has what the schemas say, to the last key."""

from __future__ import annotations

import json
import re

from recorder.commands.schemas.catalog import FORMS, schema
from tools.json_docs import page, rows


def test_each_key_of_a_schema_has_a_row() -> None:
    missing = {}
    for name in FORMS:
        of = schema(name)
        keys = set(re.findall(r'"([\w.-]+)": \{"(?:type|anyOf|description|enum)"', json.dumps(of)))
        shown = {
            part.rstrip("?") for path, _, _ in rows(of) for part in re.split(r"[.\[\]]+", path)
        }
        missing[name] = keys - {"items", "additionalProperties", "properties"} - shown
    assert not any(missing.values()), missing


def test_each_schema_has_a_section() -> None:
    text = page()
    assert [name for name in FORMS if f"## {schema(name)['title']}\n" not in text] == []
