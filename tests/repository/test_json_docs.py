"""`docs/json.md` is what the schemas say, to the last key."""

from __future__ import annotations

import json
import re

from recorder.commands.schema import names
from tools.json_docs import PAGE, page, rows, schema


def test_the_page_is_that_of_the_schemas_of_today() -> None:
    assert PAGE.read_text() == page(), "`python -m tools.json_docs` writes it anew"


def test_each_key_of_a_schema_has_a_row() -> None:
    missing = {}
    for name in names():
        of = schema(name)
        keys = set(re.findall(r'"([\w.-]+)": \{"(?:type|anyOf|description|enum)"', json.dumps(of)))
        shown = {part.rstrip("?") for path, _, _ in rows(of) for part in re.split(r"[.\[\]]+", path)}
        missing[name] = keys - {"items", "additionalProperties", "properties"} - shown
    assert not any(missing.values()), missing
