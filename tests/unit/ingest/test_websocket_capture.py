"""A WebSocket connection in a journal becomes an exchange for it, and one for each turn, whatever
it carries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.ingest.assembler import Assembler
from recorder.ingest.message_capture import OPEN_TURNS
from recorder.ingest.websocket_capture import WebSocketCapture
from recorder.journal.format import START, Gap, Mark, Record
from recorder.model.chain import hash_after, row_root
from recorder.model.events import (
    BODY_KINDS,
    UNDECODED,
    WEBSOCKET,
    CloseRecord,
    EndRecord,
    Event,
    Exchange,
    RequestRecord,
)
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.framing.websocket import MESSAGE_LIMIT, encode_close, encode_frame
from recorder.wire.recording import recording_of
from tests.support.corpus import TRANSCRIPTS
from tests.support.websocket import (
    MASK,
    Connection,
    Step,
    as_payload,
    create,
    deflated,
    needs_transcripts,
    response,
    transcript,
)

NAMES = sorted(
    path.name.removesuffix("-raw-tcp.jsonl") for path in TRANSCRIPTS.glob("*-raw-tcp.jsonl")
)
SECRET = "sk-proj-0123456789abcdefghijABCDEFGHIJ"
DEFLATE = (("sec-websocket-extensions", "permessage-deflate"),)


class Log:
    """What an assembler made of the records of some connections."""

    def __init__(self, steps: Iterable[Step], *, late: Sequence[str] = ()) -> None:
        found: dict[str, str] = {}

        def session_of(head: Any, grouping: Any) -> str | None:
            return found.setdefault(grouping.name, head.session_id) if grouping.name else None

        self.assembler = Assembler("r", session_of, dict.fromkeys(late, "was purged"))
        for step in steps:
            record = Record(step.connection, step.mark, step.t_ns, step.payload, START)
            self.assembler.feed(record, START)
        self.exchanges = {each.exchange_id: each for each in self.assembler.batch.exchanges}

    def events(self, exchange: Exchange) -> list[Event]:
        return [
            each for each in self.assembler.batch.events if each.exchange_id == exchange.exchange_id
        ]

    @property
    def connections(self) -> list[Exchange]:
        return [each for each in self.exchanges.values() if each.method != WEBSOCKET]

    @property
    def turns(self) -> list[Exchange]:
        return [each for each in self.exchanges.values() if each.method == WEBSOCKET]

    def kinds(self, exchange: Exchange) -> Counter[str]:
        return Counter(each.kind for each in self.events(exchange))

    def end(self, exchange: Exchange) -> EndRecord:
        [end] = [each for each in self.events(exchange) if each.kind == "end"]
        return msgspec.json.decode(end.raw, type=EndRecord)

    def request(self, exchange: Exchange) -> RequestRecord:
        return msgspec.json.decode(self.events(exchange)[0].raw, type=RequestRecord)

    def body(self, exchange: Exchange) -> bytes:
        return b"".join(
            each.raw
            for each in self.events(exchange)
            if each.kind == "request" and each.type == "body"
        )

    def messages(self, exchange: Exchange) -> list[bytes]:
        return [piece.raw for piece in recording_of(exchange, self.events(exchange)).pieces]

    def types(self, exchange: Exchange) -> list[str | None]:
        return [each.type for each in self.events(exchange) if each.kind == "frame"]

    def sent(self, exchange: Exchange) -> list[bytes]:
        return [each.raw for each in recording_of(exchange, self.events(exchange)).sent]

    def check(self) -> None:
        """All that `recorder verify` checks of an exchange is true of each."""
        for exchange in self.exchanges.values():
            verifier = ChainVerifier(exchange.session_id, exchange.exchange_id, exchange)
            for event in self.events(exchange):
                verifier.feed(event)
            assert verifier.close() == []


def log_of(*connections: Connection) -> Log:
    log = Log(step for each in connections for step in each.steps)
    log.check()
    return log


# -- turns


def test_each_request_is_an_exchange_with_the_messages_that_answer_it() -> None:
    made = (
        Connection().client(create("one")).answer("resp_1", "Hello ", "you").client(create("two"))
    )
    log = log_of(made.answer("resp_2", "Again").close())
    [connection], [one, two] = log.connections, log.turns
    assert (connection.method, connection.api, connection.target) == (
        "GET",
        "other",
        "/v1/responses",
    )
    assert (one.api, one.target, one.provider) == ("openai-responses", "/v1/responses", "openai")
    assert json.loads(log.body(one)) == create("one")
    assert log.messages(one) == [
        msgspec.json.encode(each) for each in response("resp_1", "Hello ", "you")
    ]
    assert log.types(two) == [each["type"] for each in response("resp_2", "Again")]
    assert [each.sequence_number for each in log.events(two) if each.kind == "frame"] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert (log.end(one).status, log.end(one).outcome, log.end(one).http_status) == (
        "completed",
        "eof",
        101,
    )
    assert one.session_id == two.session_id == connection.session_id
    assert log.kinds(connection) == {
        "request": 1,
        "response": 1,
        "control": 2,
        "frames": 1,
        "reads": 2,
        "end": 1,
    }


def test_a_turn_says_which_request_of_which_connection_it_was() -> None:
    log = log_of(
        Connection()
        .client(create(stream_id="s"))
        .answer("resp_1")
        .client(create())
        .answer("resp_2")
        .close()
    )
    places = [log.request(each).websocket for each in log.turns]
    assert places == [
        msgspec.convert(
            {"connection": log.connections[0].exchange_id, "number": 1, "stream_id": "s"},
            type(places[0]),
        ),
        msgspec.convert(
            {"connection": log.connections[0].exchange_id, "number": 2}, type(places[0])
        ),
    ]


def test_times_of_a_turn_are_since_its_request() -> None:
    made = Connection()
    made.client(create())
    asked_ns = made.t_ns
    made.server(*response("resp_1", "Hello")[:2])
    log = log_of(made.server(*response("resp_1", "Hello")[2:]).close())
    [turn] = log.turns
    assert turn.started_ns == log.connections[0].started_ns + asked_ns - 1_000_000
    assert [each.t_ns for each in log.events(turn) if each.kind == "frame"] == [1_000_000] * 2 + [
        2_000_000
    ] * 3


def test_turns_of_one_moment_are_in_the_order_of_their_requests() -> None:
    both = b"".join(encode_frame("text", as_payload(create()), mask=MASK) for _ in range(8))
    log = log_of(Connection().client(raw=both).close())
    turns = sorted(log.turns, key=lambda each: each.exchange_id)
    places = [log.request(each).websocket for each in turns]
    assert [getattr(place, "number", None) for place in places] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len({each.session_id for each in turns}) == 1


def test_messages_are_recorded_exactly_whatever_they_are() -> None:
    odd = [
        b"\xf0\x9f\x98\x80 no json",
        b'{ "type" : "strange" }',
        b"",
        b"x" * FRAME_LIMIT,
        b"y" * (2 * FRAME_LIMIT),
    ]
    made = Connection().client(create())
    for each in odd:
        made.server(each)
    log = log_of(made.server(raw=encode_frame("binary", b"\xff\x00")).answer("resp_1").close())
    [turn] = log.turns
    assert log.messages(turn)[: len(odd) + 1] == [*odd, b"\xff\x00"]
    assert log.kinds(turn)["part"] == 3
    [frame] = [each for each in log.events(turn) if each.type == "strange"]
    assert (frame.data_start, frame.data_length) == (0, len(frame.raw))


def test_long_messages_of_the_client_come_out_whole() -> None:
    long = {"type": "session.update", "text": "z" * (FRAME_LIMIT - 35)}
    assert len(msgspec.json.encode(long)) == FRAME_LIMIT
    log = log_of(Connection().client(long).client({"type": "other"}).close())
    assert [json.loads(each) for each in log.sent(log.connections[0])] == [long, {"type": "other"}]
    assert log.kinds(log.connections[0])["sent"] == 3


# -- assignment


def test_streams_of_one_connection_are_told_apart_by_their_id() -> None:
    made = Connection().client(create("a", stream_id="a")).client(create("b", stream_id="b"))
    mixed = zip(
        response("resp_b", "B", stream_id="b"), response("resp_a", "A", stream_id="a"), strict=True
    )
    for pair in mixed:
        made.server(*pair)
    log = log_of(made.close())
    assert [json.loads(log.messages(turn)[2])["delta"] for turn in log.turns] == ["A", "B"]
    assert [log.end(turn).status for turn in log.turns] == ["completed", "completed"]


def test_without_ids_the_oldest_open_turn_is_answered() -> None:
    made = Connection().client(create("a")).client(create("b"))
    log = log_of(
        made.answer("resp_1", "A")
        .server({"type": "codex.rate_limits"})
        .answer("resp_2", "B")
        .close()
    )
    assert [log.types(turn)[0] for turn in log.turns] == ["response.created", "codex.rate_limits"]
    assert [json.loads(log.messages(turn)[-1])["response"]["id"] for turn in log.turns] == [
        "resp_1",
        "resp_2",
    ]


def test_what_is_known_by_a_response_id_goes_there() -> None:
    made = Connection().client(create("a")).client(create("b"))
    made.server(response("resp_1")[0], response("resp_2")[0])
    made.client({"type": "response.cancel", "response_id": "resp_2"})
    log = log_of(made.server(response("resp_2")[-1], response("resp_1")[-1]).close())
    first, second = log.turns
    assert (log.sent(first), len(log.sent(second))) == ([], 1)
    assert [json.loads(log.messages(turn)[-1])["response"]["id"] for turn in log.turns] == [
        "resp_1",
        "resp_2",
    ]


def created(id: str, previous: str | None = None, **fields: Any) -> list[dict[str, Any]]:
    """The messages of a response that says which one it continues."""
    first, *others = response(id, id.upper(), **fields)
    return [{**first, "response": {**first["response"], "previous_response_id": previous}}, *others]


STEER = {"type": "response.steer", "input": "shorter", "previous_response_id": "resp_1"}


@pytest.mark.parametrize("waits", [False, True], ids=["alone", "another request waits"])
def test_a_response_that_continues_a_steered_one_is_a_turn_of_its_own(waits: bool) -> None:
    """Its request is the message that steered; a request that came before it has its own answer."""
    made = Connection().client(create("a")).server(*created("resp_1")[:2]).client(STEER)
    if waits:
        made.client(create("b"))
    made.server(created("resp_1")[-1]).server(*created("resp_2", "resp_1"))
    if waits:
        made.server(*created("resp_3"))
    log = log_of(made.close())
    steered, *others, successor = log.turns
    assert [json.loads(each) for each in log.sent(steered)] == [STEER]
    assert json.loads(log.body(successor)) == STEER
    assert log.messages(successor) == [
        msgspec.json.encode(each) for each in created("resp_2", "resp_1")
    ]
    assert [log.types(other)[-1] for other in others] == ["response.completed"] * waits
    assert log.types(log.connections[0]) == []


def test_a_steer_goes_to_the_response_that_it_names_and_its_successor_has_the_stream() -> None:
    made = Connection().client(create("a", stream_id="a")).client(create("b", stream_id="b"))
    made.server(created("resp_0", stream_id="a")[0], created("resp_1", stream_id="b")[0]).client(
        STEER
    )
    made.server(created("resp_1", stream_id="b")[-1]).server(
        *created("resp_2", "resp_1", stream_id="b")
    )
    log = log_of(made.server(created("resp_0", stream_id="a")[-1]).close())
    one, other, successor = log.turns
    assert (len(log.sent(one)), len(log.sent(other))) == (0, 1)
    assert msgspec.to_builtins(log.request(successor).websocket)["stream_id"] == "b"
    assert [log.end(turn).status for turn in log.turns] == ["completed"] * 3


def test_a_response_that_nobody_asked_for_is_a_turn_with_an_empty_request() -> None:
    made = (
        Connection()
        .client(create("a"))
        .server(*created("resp_1")[:2])
        .server(*created("resp_2", "resp_9"))
    )
    log = log_of(made.server(created("resp_1")[-1]).close())
    assert [json.loads(log.messages(turn)[-1])["response"]["id"] for turn in log.turns] == [
        "resp_1",
        "resp_2",
    ]
    assert log.body(log.turns[1]) == b""


def test_what_fits_no_turn_stays_with_the_connection() -> None:
    made = (
        Connection()
        .server({"type": "hello"})
        .client({"type": "session.update"})
        .client(create())
        .answer("resp_1")
    )
    made.server({"type": "codex.rate_limits"}).client(
        {"type": "response.processed", "response_id": "resp_1"}
    )
    made.client(create()).server({"type": "response.failed", "response": {"id": "resp_1"}})
    log = log_of(made.answer("resp_2").close())
    [connection] = log.connections
    assert log.types(connection) == ["hello", "codex.rate_limits", "response.failed"]
    assert [json.loads(each)["type"] for each in log.sent(connection)] == [
        "session.update",
        "response.processed",
    ]
    assert [log.end(turn).status for turn in log.turns] == ["completed", "completed"]


def test_an_error_in_band_ends_its_turn_as_failed() -> None:
    error = {
        "type": "error",
        "status": 429,
        "error": {"type": "rate_limit_exceeded", "message": "slow down"},
    }
    log = log_of(
        Connection().client(create()).server(error).client(create()).answer("resp_1").close()
    )
    assert [log.end(turn).status for turn in log.turns] == ["failed", "completed"]
    assert log.end(log.connections[0]).status == "completed"


def test_paths_without_turns_are_messages_of_the_connection() -> None:
    made = Connection("/v1/events?model=m").client({"type": "response.create"})
    log = log_of(made.server({"type": "error", "error": {}}, {"type": "response.done"}).close())
    assert log.turns == []
    assert log.types(log.connections[0]) == ["error", "response.done"]
    assert log.end(log.connections[0]).status == "completed"


def test_open_turns_have_a_bound() -> None:
    made = Connection()
    for number in range(OPEN_TURNS + 3):
        made.client(create(str(number)))
    log = log_of(made.close())
    assert (len(log.turns), len(log.sent(log.connections[0]))) == (OPEN_TURNS, 3)


# -- ends


def test_a_turn_that_the_upstream_breaks_off_is_truncated_and_says_with_which_code() -> None:
    made = Connection().client(create()).server(*response("resp_1", "Hello")[:3])
    made.server(raw=encode_close(1011, "went away")).add(Mark.CHUNK, b"").add(
        Mark.CLIENT_CHUNK, b""
    ).end("eof")
    log = log_of(made)
    end = log.end(log.turns[0])
    assert (end.status, end.error) == (
        "truncated",
        "the upstream closed the connection (1011 went away)",
    )
    close: Any = log.end(log.connections[0]).close
    assert (close.by, close.code, close.reason) == ("server", 1011, "went away")


def test_a_client_that_leaves_without_a_close_is_1006() -> None:
    made = (
        Connection()
        .client(create())
        .answer("resp_1")
        .client(create())
        .server(*response("resp_2", "Hello")[:3])
    )
    log = log_of(made.add(Mark.CLIENT_CHUNK, b"").add(Mark.CHUNK, b"").end("client_disconnect"))
    assert [log.end(turn).status for turn in log.turns] == ["completed", "client_disconnect"]
    end = log.end(log.connections[0])
    close: Any = end.close
    assert (end.outcome, close.by, close.code) == ("client_done", "client", None)


@pytest.mark.parametrize("outcome", ["recorder_shutdown", "recorder_crash", "upstream_reset"])
def test_open_turns_end_as_their_connection_does(outcome: Any) -> None:
    log = log_of(
        Connection()
        .client(create())
        .server(*response("resp_1", "Hello")[:3])
        .end(outcome, "because")
    )
    expected = [(outcome, "because"), (outcome, "because")]
    assert [
        (log.end(each).outcome, log.end(each).error) for each in log.exchanges.values()
    ] == expected


def test_a_client_that_was_asked_to_connect_again_has_not_left_by_itself() -> None:
    log = log_of(Connection().client(create()).server(*response("resp_1", "Hello")[:3]).close(1012))
    assert log.end(log.turns[0]).outcome == "recorder_shutdown"
    assert log.end(log.connections[0]).close == CloseRecord("client", 1012, "")


def test_a_client_may_half_close_and_still_be_answered() -> None:
    made = Connection().client(create()).add(Mark.CLIENT_CHUNK, b"").answer("resp_1", "Hello")
    log = log_of(made.add(Mark.CHUNK, b"").end("eof"))
    assert log.end(log.turns[0]).status == "completed"


# -- damage


def test_a_gap_in_one_direction_makes_what_follows_it_unreadable() -> None:
    gap = msgspec.json.encode(Gap(Mark.CHUNK, 1, 100, "", 9_000_000, 9_000_000, "the disk is full"))
    made = Connection().client(create()).server(*response("resp_1", "Hello")[:2])
    made.add(Mark.GAP, gap).server({"type": "x"}).client(create("later"))
    log = log_of(made.close())
    connection, (first, second) = log.connections[0], log.turns
    assert (log.end(first).outcome, log.end(first).lossless) == ("recorder_crash", False)
    assert log.end(connection).gap_bytes == 100
    assert not log.end(connection).lossless
    assert b"".join(each.raw for each in log.events(connection) if each.kind == "body").startswith(
        b"\x81"
    )
    assert json.loads(log.body(second)) == create("later")
    assert log.end(second).outcome == "client_disconnect"


def test_a_gap_of_the_client_ends_no_turn() -> None:
    gap = msgspec.json.encode(
        Gap(Mark.CLIENT_CHUNK, 1, 100, "", 9_000_000, 9_000_000, "the disk is full")
    )
    made = (
        Connection()
        .client(create())
        .add(Mark.GAP, gap)
        .client(create("lost"))
        .answer("resp_1", "Hello")
    )
    log = log_of(made.close())
    assert [log.end(turn).status for turn in log.turns] == ["completed"]
    assert not log.end(log.connections[0]).lossless


def test_damage_of_the_journal_costs_both_directions() -> None:
    steps = (
        Connection()
        .client(create())
        .server(*response("resp_1")[:2])
        .client(create("later"))
        .close()
        .steps
    )
    log = Log(steps[:5])
    log.assembler.lose("the disk is damaged")
    for step in steps[5:]:
        log.assembler.feed(
            Record(step.connection, step.mark, step.t_ns, step.payload, START), START
        )
    log.check()
    assert [log.end(each).lossless for each in log.exchanges.values()] == [False, False]
    assert log.kinds(log.connections[0])["gap"] == 2


def test_a_turn_has_no_time_before_it_began() -> None:
    gap = msgspec.json.encode(Gap(Mark.CHUNK, 1, 100, "", 1_000_000, 1_000_001, "the disk is full"))
    log = log_of(Connection().client(create()).add(Mark.GAP, gap).end("eof"))
    assert all(each.t_ns >= 0 for each in log.assembler.batch.events)


def test_frames_that_break_rules_are_read_and_flagged() -> None:
    unmasked = encode_frame("text", msgspec.json.encode(create()))
    log = log_of(Connection().client(raw=unmasked).answer("resp_1").close())
    assert json.loads(log.body(log.turns[0])) == create()
    assert "masked" in str(log.end(log.connections[0]).undecoded)


def test_text_that_is_no_utf8_is_kept_and_flagged() -> None:
    log = log_of(Connection().client(create()).server(b"\xff\xfe").answer("resp_1").close())
    assert log.messages(log.turns[0])[0] == b"\xff\xfe"
    assert (
        log.end(log.turns[0]).undecoded
        == log.end(log.connections[0]).undecoded
        == "a text is not UTF-8"
    )
    assert not log.end(log.turns[0]).lossless


def test_a_bomb_is_kept_as_it_was_sent() -> None:
    bomb = deflated(b"a" * (MESSAGE_LIMIT + 1))
    made = (
        Connection(answer=DEFLATE)
        .client(create())
        .server(raw=encode_frame("text", bomb, rsv1=True))
    )
    log = log_of(
        made.server(raw=encode_frame("text", deflated(b'{"type":"x"}'), rsv1=True)).close()
    )
    assert b"".join(
        each.raw for each in log.events(log.connections[0]) if each.kind == "body"
    ).startswith(bomb)
    assert "64 MiB" in str(log.end(log.connections[0]).undecoded)


def test_reserved_opcodes_of_the_client_are_kept_without_secrets() -> None:
    raw = b"".join(
        bytes((first, 0x80 | 40)) + b"\0\0\0\0" + SECRET.encode().ljust(40)
        for first in (0x83, 0x8B)
    )
    log = log_of(Connection().client(raw=raw).client(raw=b"\x83\x83\0\0\0\0\xff\xfe\xfd").close())
    [connection] = log.connections
    sent = [each for each in log.events(connection) if each.kind == "sent"]
    assert [(each.type, each.data_start) for each in sent] == [(UNDECODED, None)] * 3
    assert all(b"REDACTED" in each.raw and SECRET.encode() not in each.raw for each in sent)


def test_an_answer_with_a_wrong_accept_is_recorded_and_flagged() -> None:
    made = (
        Connection(answer=(("sec-websocket-accept", "d3Jvbmc="),)).client(create()).answer("resp_1")
    )
    log = log_of(made.close())
    assert log.end(log.turns[0]).status == "completed"
    assert "Sec-WebSocket-Accept" in str(log.end(log.connections[0]).undecoded)


@pytest.mark.parametrize(("upgrade", "extensions"), [(None, ""), ("websocket", "x-zip")])
def test_what_is_no_websocket_that_we_know_is_kept_raw(
    upgrade: str | None, extensions: str
) -> None:
    made = Connection(upgrade=upgrade, answer=(("sec-websocket-extensions", extensions),))
    log = log_of(made.server(raw=b"anything at all").client(raw=b"and \xff this").end("eof"))
    assert log.messages(log.connections[0]) == [b"anything at all"]
    assert (log.kinds(log.connections[0])["sent"], log.end(log.connections[0]).lossless) == (
        1,
        False,
    )


def test_bytes_of_a_client_without_a_101_are_counted() -> None:
    made = Connection()
    steps = [step for step in made.client(create()).end("eof").steps if step.mark != Mark.RESPONSE]
    log = Log(steps)
    log.check()
    assert log.end(log.connections[0]).gap_chunks == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([Mark.CHUNK, Mark.CLIENT_CHUNK]), st.binary(max_size=60)),
        max_size=20,
    )
)
def test_no_bytes_raise(reads: list[tuple[Mark, bytes]]) -> None:
    made = Connection(answer=DEFLATE).client(create())
    for mark, data in reads:
        made.add(mark, data)
    log = log_of(made.end("eof"))
    assert all("makes no sense" not in str(log.end(each).error) for each in log.exchanges.values())


def test_a_fault_of_ours_costs_the_rest_of_its_connection_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = WebSocketCapture._take_answer

    def faulty(self: WebSocketCapture, t_ns: int, message: Any, events: list[Event]) -> None:
        if b"poison" in message.payload:
            raise TypeError("a fault of ours")
        take(self, t_ns, message, events)

    monkeypatch.setattr(WebSocketCapture, "_take_answer", faulty)
    other = Connection(number=2).client(create("unharmed")).answer("resp_9").close()
    made = (
        Connection()
        .client(create())
        .server(response("resp_1")[0])
        .server({"type": "poison"})
        .client(b"more")
    )
    log = Log([*made.close().steps, *other.steps])
    poisoned, unharmed = log.connections
    assert log.end(poisoned).gap_bytes > 0
    assert "a fault of ours" in str(log.end(poisoned).error)
    assert log.end(unharmed).status == "completed"


def test_a_fault_of_ours_leaves_no_turn_without_events(monkeypatch: pytest.MonkeyPatch) -> None:
    take = WebSocketCapture._take_request

    def faulty(self: WebSocketCapture, t_ns: int, message: Any, events: Any) -> None:
        take(self, t_ns, message, events)
        if b"poison" in message.payload:
            raise TypeError("a fault of ours")

    monkeypatch.setattr(WebSocketCapture, "_take_request", faulty)
    both = b"".join(
        encode_frame("text", as_payload(create(text)), mask=MASK) for text in ("fine", "poison")
    )
    log = log_of(Connection().client(raw=both).end("eof"))
    assert log.turns == []
    assert log.end(log.connections[0]).gap_bytes == len(both)


def test_a_recording_has_what_is_beside_the_body() -> None:
    made = (
        Connection("/v1/realtime")
        .client({"type": "session.update"})
        .server({"type": "session.updated"})
    )
    made.client(raw=b"\x83\x84\0\0\0\0what").server(raw=encode_frame("ping", b"\x01")).close(
        1001, "gone"
    )
    log = log_of(made)
    recording = recording_of(log.connections[0], log.events(log.connections[0]))
    assert recording.is_switched
    assert recording.body == b'{"type":"session.updated"}'
    expected = [{"type": "session.update"}, b"what"]
    assert [
        (json.loads(each.raw) if each.is_message else each.raw) for each in recording.sent
    ] == expected
    assert [(each.by, each.opcode, each.payload, each.code) for _, each in recording.control] == [
        ("server", "ping", "01", None),
        ("client", "close", "03e9676f6e65", 1001),
        ("server", "close", "03e9676f6e65", 1001),
    ]
    assert [(by, first) for _, by, first, _ in recording.frames] == [
        *(("client", 0x81), ("server", 0x81), ("client", 0x83)),
        *(("server", 0x89), ("client", 0x88), ("server", 0x88)),
    ]
    assert len(recording.reads) == 3


# -- what the log must not have, and must have again


def test_secrets_in_messages_of_the_client_are_redacted() -> None:
    made = (
        Connection()
        .client(create(SECRET, stream_id=SECRET))
        .client({"type": "response.steer", "text": SECRET})
    )
    made.answer("resp_1")
    log = log_of(made.client({"type": "session.update", "key": SECRET}).close())
    assert SECRET.encode() not in b"".join(each.raw for each in log.assembler.batch.events)
    assert log.request(log.turns[0]).redactions == {"openai-key": 2}
    assert all(
        json.loads(each) for each in (*log.sent(log.turns[0]), *log.sent(log.connections[0]))
    )


def test_secrets_in_control_frames_of_the_client_are_redacted() -> None:
    made = (
        Connection()
        .client(raw=encode_frame("ping", SECRET.encode(), mask=MASK))
        .close(1000, f"bad key {SECRET}")
    )
    log = log_of(made)
    recording = recording_of(log.connections[0], log.events(log.connections[0]))
    hidden = f"<REDACTED openai-key, {len(SECRET)} bytes>"
    [ping, close] = [record for _, record in recording.control if record.by == "client"]
    assert bytes.fromhex(ping.payload).decode() == hidden
    assert (close.code, close.reason) == (1000, f"bad key {hidden}")
    assert bytes.fromhex(close.payload) == (1000).to_bytes(2) + f"bad key {hidden}".encode()
    assert log.end(log.connections[0]).close == CloseRecord("client", 1000, f"bad key {hidden}")


def test_half_a_secret_in_bytes_that_cannot_be_framed_is_not_kept() -> None:
    made = (
        Connection(upgrade=None).client(raw=SECRET[:20].encode()).client(raw=SECRET[20:].encode())
    )
    log = log_of(made.end("eof"))
    assert log.sent(log.connections[0]) == [
        b"<REDACTED coded, 20 bytes>",
        b"<REDACTED coded, 18 bytes>",
    ]


def test_a_control_frame_that_is_too_long_is_no_row_of_its_length() -> None:
    long = b"x" * (2 * FRAME_LIMIT + 5)
    made = (
        Connection()
        .client(raw=encode_frame("ping", long, mask=MASK))
        .server(raw=encode_frame("ping", long))
    )
    log = log_of(made.close())
    [connection] = log.connections
    assert log.sent(connection) == [long]
    assert b"".join(each.raw for each in log.events(connection) if each.kind == "body") == long
    assert max(len(each.raw) for each in log.events(connection)) == FRAME_LIMIT
    assert log.end(connection).undecoded == "a control frame has more than 125 bytes"


def test_a_turn_that_was_purged_does_not_come_again() -> None:
    made = (
        Connection()
        .client(create("a"))
        .answer("resp_1")
        .client(create("b"))
        .answer("resp_2")
        .close()
    )
    first = Log(made.steps).turns[0]
    log = Log(made.steps, late=[first.exchange_id])
    assert [json.loads(log.body(each)) for each in log.turns] == [create("b")]
    # it has no part of it either
    assert log.events(log.connections[0]) == Log(made.steps).events(log.connections[0])


def test_a_connection_of_which_the_client_is_overwritten_in_the_journal_is_in_the_log() -> None:
    made = Connection().server({"type": "hello"}).client(create("a")).answer("resp_1").close()
    blank = [
        step._replace(mark=Mark.BLANK) if step.mark == Mark.CLIENT_CHUNK else step
        for step in made.steps
    ]
    log, whole = Log(blank), Log(made.steps)
    events = log.events(log.connections[0])
    assert (log.turns, log.assembler.open) == ([], {})
    assert events == whole.events(whole.connections[0])[: len(events)]


@needs_transcripts
@pytest.mark.parametrize("name", NAMES)
def test_transcripts_are_the_messages_that_their_client_saw(name: str) -> None:
    log = Log(transcript(name))
    log.check()
    frames = [
        json.loads(line) for line in (TRANSCRIPTS / f"{name}-frames.jsonl").read_text().splitlines()
    ]
    told = [each["data"] for each in frames if each.get("dir") == "server->client"]
    asked = [each["data"] for each in frames if each.get("dir") == "client->server"]
    recorded = [json.loads(raw) for each in log.exchanges.values() for raw in log.messages(each)]
    # a live session was not set up
    requests = [json.loads(body) for each in log.turns if (body := log.body(each))]
    sent = [json.loads(raw) for each in log.exchanges.values() for raw in log.sent(each)]
    assert sorted(map(repr, recorded)) == sorted(map(repr, told))
    said = [
        {name: value for name, value in each.items() if name != "input"}
        for each in (*requests, *sent)
    ]
    # paths made up
    wanted = [{name: value for name, value in each.items() if name != "input"} for each in asked]
    assert sorted(map(repr, said)) == sorted(map(repr, wanted))
    assert all(log.end(each).undecoded is None for each in log.exchanges.values())


@needs_transcripts
def test_a_session_of_codex_has_its_turns_threads_and_ends() -> None:
    log = Log(transcript("codex-0.169-spawn"))
    assert len({each.session_id for each in log.exchanges.values()}) == 1
    assert len(log.connections) == 2
    assert Counter(each.thread_id for each in log.turns) == Counter(
        {log.turns[0].thread_id: 4, next(each.thread_id for each in log.connections[1:]): 2}
    )
    assert {log.end(each).status for each in log.turns} == {"completed"}
    assert [log.end(each).close for each in log.connections] == [CloseRecord("client")] * 2


@needs_transcripts
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_cuts_and_times_of_reads_change_nothing_but_times(data: st.DataObject) -> None:
    steps = transcript("codex-0.169")
    whole = Log(steps)
    cut: list[Step] = []
    for step in steps:
        if step.mark in (Mark.CHUNK, Mark.CLIENT_CHUNK) and len(step.payload) > 1:
            at = data.draw(st.integers(1, len(step.payload) - 1))
            cut += [
                step._replace(payload=step.payload[:at]),
                step._replace(payload=step.payload[at:]),
            ]
        else:
            cut.append(step)
    log = Log(cut)
    log.check()
    kept = BODY_KINDS | {"request", "sent", "control", "frames"}

    def content(log: Log) -> list[Any]:
        events = log.assembler.batch.events
        return [
            (each.exchange_id, each.kind, each.t_ns, each.type, each.raw)
            for each in events
            if each.kind in kept
        ]

    assert content(log) == content(whole)
    assert sorted(map(repr, log.exchanges)) == sorted(map(repr, whole.exchanges))


def test_the_chain_covers_the_row_of_a_turn() -> None:
    log = log_of(Connection().client(create()).answer("resp_1").close())
    first = log.events(log.turns[0])[0]
    assert first.hash == hash_after(row_root(log.turns[0]), first, 0)
