"""Recording into memory: what a test asks of a real upstream, to be saved as a cassette when the test has passed."""

from __future__ import annotations

import msgspec

from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.model.payloads import ExchangeEnd
from recorder.proxy.http.messages import Request, Response, Sink, Transport
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.replay.transport import origin_of
from recorder.testing.contents import Episode

_LEFT = msgspec.json.encode(ExchangeEnd("client_disconnect", "the test ended before the response did"))


class Taping:
    """The exchanges of one test, a journal that is not on disk. Threads may share it."""

    def __init__(self) -> None:
        self._recorder_id = new_id()
        self._writers: list[_MemoryWriter] = []

    def exchange(self) -> _MemoryWriter:
        writer = _MemoryWriter()
        self._writers.append(writer)
        return writer

    def flush(self) -> None:
        """Do nothing: no chunk waits."""

    def through(self, inner: Transport) -> TapedTransport:
        """A transport that sends through another one and keeps what passes."""
        return TapedTransport(RecordingTransport(inner, self))

    def episodes(self, session_id: str) -> list[Episode]:
        """What was kept, as part of a session. What has not ended yet ends here."""
        assembler = Assembler(self._recorder_id, lambda head, grouping: session_id)
        for number, writer in enumerate(list(self._writers), 1):
            for mark, t_ns, payload in writer.whole():
                assembler.tell(Record(number, mark, t_ns, payload, START), START)
        batch = assembler.batch
        return [(exchange, batch.of(exchange.exchange_id).events) for exchange in batch.exchanges]


class _MemoryWriter:
    """The records of one exchange."""

    def __init__(self) -> None:
        self._records: list[tuple[Mark, int, bytes]] = []

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        self._records.append((mark, t_ns, payload))

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        self._records += [(mark, t_ns, payload) for mark, payload in records]

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        self.write(Mark.CHUNK, t_ns, data)
        then(data)
        return False

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        if last:
            self.write(Mark.CHUNK, t_ns, last)
        self.write(Mark.END, t_ns, payload)

    def whole(self) -> list[tuple[Mark, int, bytes]]:
        """Return the records; those of an exchange that has not ended end here."""
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

    async def handle_async_request(self, request: Request) -> Response:
        origin = origin_of(request)
        if "recorder" in request.extensions:
            headers = [(name, request.url.netloc if name.lower() == b"host" else said) for name, said in origin.headers]
            origin = msgspec.structs.replace(origin, headers=headers)
        request.extensions["recorder"] = origin
        return await self._recording.handle_async_request(request)

    async def aclose(self) -> None:
        await self._recording.aclose()
