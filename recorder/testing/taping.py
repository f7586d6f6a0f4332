"""Recording into memory: what a test asks of a real upstream, to be saved as a cassette when the test has passed."""

from __future__ import annotations

from typing import Any

import msgspec

from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.model.payloads import ExchangeEnd
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.replay.transport import origin_of
from recorder.testing.contents import Episode

_LEFT = msgspec.json.encode(ExchangeEnd("client_disconnect", "the test ended before the response did"))


Told = tuple[Mark, int, bytes]  # a record of an exchange: what, when, its payload


class Taping:
    """The exchanges of one test, a journal that is not on disk. Threads may share it."""

    def __init__(self) -> None:
        self._recorder_id = new_id()
        self._tapes: list[_Tape] = []

    def exchange(self) -> _Tape:
        tape = _Tape()
        self._tapes.append(tape)
        return tape

    def through(self, inner: Any) -> TapedTransport:
        """A transport that sends through another one and keeps what passes."""
        return TapedTransport(RecordingTransport(inner, self))

    def episodes(self, session_id: str) -> list[Episode]:
        """What was kept, as part of a session. What has not ended yet ends here."""
        assembler = Assembler(self._recorder_id, lambda head, grouping: session_id)
        for number, tape in enumerate(list(self._tapes), 1):
            for mark, t_ns, payload in tape.whole():
                assembler.feed(Record(number, mark, t_ns, payload, START), START)
        batch = assembler.batch
        return [(exchange, batch.of(exchange.exchange_id).events) for exchange in batch.exchanges]


class _Tape:
    """The records of one exchange."""

    def __init__(self) -> None:
        self._records: list[Told] = []

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        self._records.append((mark, t_ns, payload))

    def end(self, t_ns: int, payload: bytes) -> None:
        self.write(Mark.END, t_ns, payload)

    def whole(self) -> list[Told]:
        records = list(self._records)
        if records and records[-1][0] is not Mark.END:
            records.append((Mark.END, records[-1][1], _LEFT))
        return records


class TapedTransport:
    """The recording, told by which name the upstream of a request goes. The host is that of the upstream, too, and not
    ours, where we stand between the two.
    """

    def __init__(self, recording: RecordingTransport) -> None:
        self._recording = recording

    async def handle_async_request(self, request: Any) -> Any:
        origin = origin_of(request)
        if "recorder" in request.extensions:
            headers = [(name, request.url.netloc if name.lower() == b"host" else said) for name, said in origin.headers]
            origin = msgspec.structs.replace(origin, headers=headers)
        request.extensions["recorder"] = origin
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()
