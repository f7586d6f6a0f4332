from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from recorder.wire.dialects import DIALECTS, Dialect

MEMBERS = ("type", "event_type", "object", "message", "response", "choices", "candidates", "done", "jsonrpc")
VALUES: tuple[Any, ...] = ([], {}, [[]], 1, 0.5, True, None, "x")


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_whatever_a_payload_has_it_can_be_asked_of_which_format_it_is(dialect: Dialect) -> None:
    for name, value in product(MEMBERS, VALUES):
        for asked in filter(None, (dialect.speaks, dialect.is_event)):
            assert asked({name: value}) in (True, False), (name, value)
