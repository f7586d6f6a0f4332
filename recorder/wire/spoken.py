"""The format of a stream, by its first payloads, or of a document: a gateway may answer in another
than its path says.

Who cuts a stream into events and who reads them ask here, so that both come to the same answer.
Pure.
"""

from __future__ import annotations

from recorder.wire.dialects import DIALECTS, Dialect, by_name
from recorder.wire.dialects.json_values import Object

PAYLOADS_LIMIT = 8
"""Payloads that are looked at. Before the first that shows the format are pings, errors, and events
of a gateway.
"""


class SpokenDialect:
    """The dialect of one response, told by its payloads in order."""

    def __init__(self, dialect: Dialect) -> None:
        """`dialect` is that of its path.

        One that cannot be told by a payload counts as it is; of an unknown path any may be the one
        that is spoken.
        """
        self._own = self.dialect = dialect
        can_be_told = dialect.speaks is not None or dialect is by_name("other")
        self._left = PAYLOADS_LIMIT if can_be_told else 0
        self.is_open = can_be_told  # whether the next payload is wanted; asked for each event

    @property
    def contradicts_path(self) -> bool:
        """Return whether it is another one than the path says: an unknown path says nothing."""
        return self.dialect is not self._own and self._own is not by_name("other")

    def hear(self, payload: Object) -> bool:
        """Add the next payload; return whether it shows another dialect than that of the path."""
        self._left -= 1
        for dialect in (self._own, *DIALECTS):
            if dialect.speaks is not None and dialect.speaks(payload):
                self.dialect, self._left = dialect, 0
                break
        self.is_open = self._left > 0
        return self.dialect is not self._own
