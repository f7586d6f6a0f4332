"""A WebSocket connection in a few numbers: its messages that belong to no turn, its frames, and how
it ended.

No table: it is counted when somebody looks at the connection. Pure, like the folds of the
projections.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from recorder.model.events import (
    SWITCHED,
    UNDECODED,
    CloseRecord,
    ControlRecord,
    EndRecord,
    Event,
    FrameShape,
    ResponseHead,
    Side,
)

# types of messages that are counted apart: Realtime has some 40, of which a session shows a dozen
TYPES_LIMIT = 20
OTHERS = "others"


class ConnectionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a connection that is not in its turns.

    Messages are counted by type, in order of appearance.
    """

    sent: dict[str, int]
    received: dict[str, int]
    control: dict[str, int]  # by sender and kind: `client ping`
    client_frames: int
    server_frames: int
    close: CloseRecord | None = None  # None while it is open
    undecoded: str | None = None  # the first thing that could not be read


class ConnectionCounter:
    """A counter of the events of an exchange, in order.

    One that is not WebSocket connection has no summary.
    """

    def __init__(self) -> None:
        self._is_switched = False
        self._sent, self._received, self._control = Counter[str](), Counter[str](), Counter[str]()
        self._frames = Counter[Side]()
        self._end: EndRecord | None = None

    def add(self, event: Event) -> None:
        """Count an event. One that cannot be read counts as nothing."""
        if event.kind == "frame" or (event.kind == "part" and event.type is not None):
            _count(self._received, event.type)
        elif event.kind == "sent":
            _count(
                self._sent,
                "no message"
                if event.type == UNDECODED and event.data_start is None
                else event.type,
            )
        elif event.kind in ("response", "control", "frames", "end"):
            try:
                self._read(event)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return

    def summary(self) -> ConnectionSummary | None:
        """Return the summary of the events so far."""
        if not self._is_switched:
            return None
        sent, received, control = (
            dict(each) for each in (self._sent, self._received, self._control)
        )
        close = (
            self._end.close
            if self._end is not None and self._end.close is not msgspec.UNSET
            else None
        )
        undecoded = self._end.undecoded if self._end is not None else None
        return ConnectionSummary(
            sent,
            received,
            control,
            self._frames["client"],
            self._frames["server"],
            close,
            undecoded,
        )

    def _read(self, event: Event) -> None:
        if event.kind == "response":
            self._is_switched = msgspec.json.decode(event.raw, type=ResponseHead).status == SWITCHED
        elif event.kind == "control":
            record = msgspec.json.decode(event.raw, type=ControlRecord)
            self._control[f"{record.by} {record.opcode}"] += 1
        elif event.kind == "frames":
            self._frames.update(
                by for _, by, _, _ in msgspec.json.decode(event.raw, type=list[FrameShape])
            )
        else:
            self._end = msgspec.json.decode(event.raw, type=EndRecord)


def _count(counts: Counter[str], type: str | None) -> None:
    name = type or "no type"
    counts[name if name in counts or len(counts) < TYPES_LIMIT else OTHERS] += 1
