"""The loader of recordings as the commands use it: from the log that `--db` names, when that has caught up."""

from __future__ import annotations

from functools import partial

from recorder.commands.terminal.options import open_current
from recorder.commands.terminal.selection import select
from recorder.recordings.loader import Loader


def loader(db: str | None) -> Loader:
    """Return the loader for a command. It opens the log only if a session is requested."""
    return Loader(partial(open_current, db), select)
