"""The names that a user may give to a session."""

from __future__ import annotations

import re

from recorder.errors import UsageError
from recorder.model.events import LATEST
from recorder.wire.grouping.rules import cleaned

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

NEVER_FOUND = f"a session called {LATEST} would never be found by that name, which means the one that was used last"


def new_name(given: str) -> str:
    """Return a name for `--session` under which the session will be found again.

    Raise `UsageError` for others.
    """
    name = cleaned(given)
    if name is None or name in (".", ".."):
        raise UsageError(
            "--session needs a visible name that is not a dot: it is part of the clients' URLs."
        )
    if name == LATEST or _ID.fullmatch(name):
        means = "the session that was used last" if name == LATEST else "an id"
        raise UsageError(
            f"--session {name} would never be found by that name, which means {means}: give another name."
        )
    return name
