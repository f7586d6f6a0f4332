"""The full-text index over the words of messages, reasoning and arguments: its name, and the parts of each engine.

It stores words, not texts: they are in the items. Whoever writes items writes the index too, because a trigger of
SQLite may not use it where `trusted_schema` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select

SEARCH = "p_search_v1"
SEARCHED = "text, refusal, summary_text, arguments"
"""The columns of the items whose words are in the index."""

OF_EXCHANGE = "session_id = :session_id AND exchange_id = :exchange_id"
OF_SESSION = "session_id = :session_id"


class SearchIndex(NamedTuple):
    """The statements of one engine for the full-text index. Values are given by name."""

    add: str
    """Adds the items of one exchange."""

    remove: str
    """Removes the items of one exchange, before their rows are deleted."""

    remove_session: str
    """Removes the items of one session, before their rows are deleted."""

    rebuild: Sequence[str]
    """Make the index anew from all items."""

    sessions: Callable[[str], Select[*tuple[Any, ...]]]
    """Return the select of the ids of sessions that have all words in one of their items. `wea*` begins a word."""
