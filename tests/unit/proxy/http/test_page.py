"""The limits in `docs/http.md` are those of the modules."""

from __future__ import annotations

import re
from importlib import import_module

from tests.support.corpus import ROOT

PAGE = (ROOT / "docs" / "http.md").read_text()


def test_every_limit_is_the_one_that_the_page_has() -> None:
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE)
    assert len(rows) > 10
    for module, name, shown in rows:
        folder = "recorder.proxy" if module == "upstream" else "recorder.proxy.http"
        limit = getattr(import_module(f"{folder}.{module}"), name)
        assert limit == int(shown.replace(",", "")), f"{module}.{name}"
