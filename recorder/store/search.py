"""The full-text indexes over the words of models, users and tools: their names, and the parts of
each engine.

They store words, not texts: those are in the rows of a projection, each text once. Whoever writes
these rows writes the indexes too, because a trigger of SQLite may not use them where
`trusted_schema` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from recorder.projections.rows import ITEMS, RESULTS, USER_TEXTS, Projection


class Indexed(NamedTuple):
    """One full-text index: a row of it is a row of a projection."""

    name: str
    projection: Projection
    columns: str  # with the texts

    @property
    def damage(self) -> str:
        """Return what is said if it differs from its rows."""
        words = f"the words of {self.projection.table}"
        return f"the full-text index {self.name} does not have {words}: run `recorder db rebuild`"


INDEXES = (
    Indexed("p_search_v1", ITEMS, "text, refusal, summary_text, arguments"),
    Indexed("p_search_results_v1", RESULTS, "output"),
    Indexed("p_search_user_texts_v1", USER_TEXTS, "text"),
)
INDEX_NAMES = tuple(index.name for index in INDEXES)

OF_EXCHANGE = "t.session_id = :session_id AND t.exchange_id = :exchange_id"
OF_SESSION = "t.session_id = :session_id"


class SearchStatements(NamedTuple):
    """The statements of one engine for one index. Values are given by name."""

    add: str
    """Adds the rows of one exchange that the index does not have: another exchange may have had the
    same text.
    """

    remove: str
    """Removes the rows of one exchange, before they are deleted. Those that the index does not have
    are not an error.
    """

    remove_session: str
    """Removes the rows of one session, before they are deleted."""

    rebuild: Sequence[str]
    """Make the index again from all rows."""


class SearchIndex(NamedTuple):
    """The full-text search of one engine."""

    statements: Sequence[SearchStatements]
    """Of each of `INDEXES`."""

    sessions: Callable[[str], tuple[str, dict[str, str]]]
    """Return the select of the ids of sessions that have all words in one row of an index, and its
    values by name. `wea*` begins a word.
    """
