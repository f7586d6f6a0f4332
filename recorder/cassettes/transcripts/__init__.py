"""Transcripts: what coding agents write down of their own sessions, as exchanges that are derived
from it.

A transcript has the answers of a model, what was said to it, tokens, and the times at which lines
were written. It has no byte that was sent and no time of one.

Must not know: the database, what the log has already, other files.

Rules of these files:

* A response is a document in its API's own form, made of the blocks that the agent kept. A request
  has what is new in it, and the id of the response that it follows where the transcript has one:
  histories are not repeated.
* An exchange begins when the last line that it answers was written, and its response came when its
  own last line was. No other time is made up, and none of them is a latency: the columns of those
  are `NULL`.
* The id of an exchange follows, but for its time, from that of its response: a file that is read
  again, or another one with a copy of the same lines, adds nothing.
* A response that an agent may still be writing is left for the next import: what the log has once
  does not change.
* A line that cannot be read is named, and the others are read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import BinaryIO, ClassVar, NamedTuple

from recorder.cassettes import Names
from recorder.cassettes.calls import (
    ImportedCall,
    ImportedFile,
    check_values,
    header_list,
    json_bytes,
)
from recorder.errors import RecorderError
from recorder.model.events import TRANSCRIPT, ResponseHead, Session
from recorder.model.ids import uuid7, without_time
from recorder.wire.dialects.json_values import Object, decoded_or_none

LINE_LIMIT = 64 * 2**20
"""Bytes of a line: no API takes a request of over 32 MB, and escapes make a text at most twice as
long in JSON.
"""

REST_S = 60
"""How long a file must not have changed until its last response is taken as it is, if nothing in it
says that it has ended: agents write a line when a block has ended, and few blocks take as long."""

JSON = "application/json"


class SkippedLine(NamedTuple):
    """A line that could not be read."""

    number: int
    reason: str


class DerivedResponse(NamedTuple):
    """A response as a transcript has it. Times are wall times."""

    key: str  # what tells it from all others of the agent
    first_ns: int  # of its own first line
    began_ns: int
    ended_ns: int
    target: str  # of the API whose document the response is
    request: Object
    response: Object
    # those that the agent sends, as far as the transcript knows their values
    headers: Mapping[str, str]
    response_headers: Mapping[str, str] = {}
    upstream: str | None = None  # where it is not the usual one of the API
    is_settled: bool = True  # whether nothing will be added to it
    session_id: str = ""  # where a file has several sessions


class Transcript(ImportedFile):
    """A transcript of an agent, checked. `name` is the agent's own id of the session."""

    agent: ClassVar[str]

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if the file cannot be read at all; lines that cannot be read are
        in `skipped`.
        """
        self.skipped: list[SkippedLine] = []
        self.name = ""
        self._unsettled: set[str | None] = set()  # ids of calls
        self._response_ids: dict[str, str] = {}
        super().__init__(self._calls_of(file), None)

    def _derived(self, file: BinaryIO) -> Iterable[DerivedResponse]:
        """Return the responses in the order in which they began."""
        raise NotImplementedError

    def _calls_of(self, file: BinaryIO) -> Iterator[ImportedCall]:
        for derived in self._derived(file):
            call = self._call(derived)
            if not derived.is_settled:
                self._unsettled.add(call.id)
            self._response_ids[call.id or ""] = str(derived.response.get("id") or "")
            yield call

    def _call(self, derived: DerivedResponse) -> ImportedCall:
        ended_ns = max(0, derived.ended_ns - derived.began_ns)
        return ImportedCall(
            method="POST",
            target=derived.target,
            headers=header_list({"content-type": JSON, **derived.headers}),
            body=json_bytes(derived.request),
            response=ResponseHead(
                200, "OK", header_list({"content-type": JSON, **derived.response_headers})
            ),
            pieces=[(ended_ns, json_bytes(derived.response))],
            started_ns=derived.began_ns,
            head_ns=ended_ns,
            end_ns=ended_ns,
            id=uuid7(derived.first_ns, _entropy(self.agent, derived.key)),
            upstream=derived.upstream,
            derived=f"a transcript of {self.agent}",
        )

    def session(self, name: str, names: Names) -> Session:
        """Return a session whose id is the same each time, as long as its first response is."""
        began_ns = min((call.started_ns for call in self._calls), default=names.now_ns())
        id = uuid7(began_ns, _entropy(self.agent, self.name))
        return Session(id, began_ns, name, TRANSCRIPT, "{}", "import")

    def parts(self) -> list[Transcript]:
        """Return the transcripts of the sessions that the file has: one, as a rule."""
        return [self]

    # -- what an import leaves out

    @property
    def ids(self) -> list[str]:
        """Return the ids of the exchanges."""
        return [call.id for call in self._calls if call.id is not None]

    @property
    def span_ns(self) -> tuple[int, int]:
        """Return the times between which its exchanges began."""
        times = [call.started_ns for call in self._calls]
        return min(times, default=0), max(times, default=0)

    def leave_unsettled(self) -> int:
        """Leave out responses that may still be written, and return their number."""
        return self._leave(self._unsettled)

    def leave_known(self, ids: Container[str], response_ids: Container[str]) -> int:
        """Leave out exchanges that the log has, by their ids without the time or those of their
        responses, and return their number.
        """
        known: set[str | None] = set()
        for id, response_id in self._response_ids.items():
            if without_time(id) in ids or response_id in response_ids:
                known.add(id)
        return self._leave(known)

    def _leave(self, left_out: Container[str | None]) -> int:
        before = len(self._calls)
        self._calls = [call for call in self._calls if call.id not in left_out]
        return before - len(self._calls)

    # -- lines

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, Object]]:
        """Yield the lines that are JSON objects, with their numbers.

        Half a line at the end is still being written.
        """
        file.seek(0)
        number = 0
        while line := file.readline(LINE_LIMIT + 1):
            number += 1
            if len(line) > LINE_LIMIT:
                self._skip(number, f"it is over {LINE_LIMIT >> 20} MiB, more than any request")
                while not line.endswith(b"\n") and (line := file.readline(LINE_LIMIT)):
                    pass
                continue
            found = self._line(number, line) if line.strip() else None
            if found is not None:
                yield number, found

    def _line(self, number: int, line: bytes) -> Object | None:
        try:
            found = decoded_or_none(check_values(line))
        except RecorderError as error:
            self._skip(number, str(error))
            return None
        if isinstance(found, dict):
            return found
        if line.endswith(b"\n"):
            self._skip(number, "it is not a JSON object")
        return None

    def _skip(self, number: int, reason: str) -> None:
        self.skipped.append(SkippedLine(number, reason))


def _entropy(agent: str, key: str) -> bytes:
    """Return the part of an id that follows from the agent's own."""
    return sha256(f"{agent} {key}".encode("utf-8", "surrogatepass")).digest()[:10]
