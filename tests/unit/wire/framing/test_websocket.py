"""`recorder.wire.framing.websocket`: whatever the cuts, messages are those of `websockets`, the
rest is damage.
"""

from __future__ import annotations

import itertools
import json
import re
import time
import tracemalloc
import zlib
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets import frames as oracle_frames
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.streams import StreamReader
from websockets.utils import apply_mask

from recorder.journal.format import Mark
from recorder.model.events import ResponseHead
from recorder.wire.framing.websocket import (
    CONTROL_LIMIT,
    FINAL_BLOCKS_LIMIT,
    MESSAGE_LIMIT,
    Damage,
    Deflate,
    Frame,
    Message,
    MessageParser,
    Opcode,
    Part,
    accept_of,
    close_of,
    encode_close,
    encode_frame,
    negotiated,
    unmask,
)
from tests.support.corpus import TRANSCRIPTS
from tests.support.tables import table
from tests.support.websocket import needs_transcripts, transcript

KEY = b"\x12\x00\xfe\x80"
TAKEOVER, NO_TAKEOVER = (
    Deflate(context_takeover=True, window_bits=15),
    Deflate(context_takeover=False, window_bits=15),
)
HELLO_DEFLATED = bytes.fromhex("f248cdc9c90700")  # RFC 7692 section 7.2.3.1
HELLO_AGAIN = bytes.fromhex("f200110000")  # section 7.2.3.2: it refers to the message before it
HELLO_STORED = bytes.fromhex("000500faff48656c6c6f00")  # section 7.2.3.3
HELLO_FINAL = bytes.fromhex("f348cdc9c9070000")  # section 7.2.3.4
HELLO_TWO_BLOCKS = bytes.fromhex("f248050000 00ffffcac9c90700")  # section 7.2.3.5
EMPTY_DEFLATED = b"\0"  # section 7.2.3.6


def parsed(
    chunks: list[bytes], *, from_client: bool = False, deflate: Deflate | None = None
) -> list[Part]:
    """All that comes of the chunks and the end; damage that goes on is one."""
    parser = MessageParser(from_client=from_client, deflate=deflate)
    emitted = itertools.chain.from_iterable(map(parser.feed, chunks))
    parts: list[Part] = []
    for part in (*emitted, *parser.close()):
        last = parts[-1] if parts else None
        if isinstance(part, Damage) and isinstance(last, Damage) and part.reason == last.reason:
            parts[-1] = Damage(last.raw + part.raw, last.reason)
        else:
            parts.append(part)
    return parts


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def messages(parts: list[Part]) -> list[tuple[str, bytes]]:
    """The messages of parts that have neither damage nor faults."""
    assert not [part for part in parts if isinstance(part, Damage)]
    found = [part for part in parts if isinstance(part, Message)]
    assert {part.fault for part in found} <= {None}
    return [(part.opcode, part.payload) for part in found]


def oracle(data: bytes, *, from_client: bool, deflate: Deflate | None) -> list[tuple[str, bytes]]:
    """The messages as `websockets` reads them."""
    reader = StreamReader()
    reader.feed_data(data)
    # zlib deflates with 9 where 8 were agreed on
    bits = max(deflate.window_bits, 9) if deflate else 15
    extensions = (
        [PerMessageDeflate(not deflate.context_takeover, True, bits, 15)] if deflate else []
    )
    found: list[tuple[str, bytes]] = []
    begun: list[tuple[str, bytes]] = []
    while reader.buffer:
        try:
            next(
                oracle_frames.Frame.parse(
                    reader.read_exact, mask=from_client, extensions=extensions
                )
            )
            raise AssertionError("the bytes end inside a frame")
        except StopIteration as end:
            frame: oracle_frames.Frame = end.value
        one = (frame.opcode.name.lower(), bytes(frame.data))
        if frame.opcode in oracle_frames.CTRL_OPCODES:
            found.append(one)
            continue
        begun.append(one)
        if frame.fin:
            found.append((begun[0][0], b"".join(data for _, data in begun)))
            begun = []
    return found


class Sent(NamedTuple):
    """Random messages of one side, as on the wire."""

    data: bytes
    frames: list[Frame]
    messages: list[tuple[str, bytes]]
    from_client: bool
    deflate: Deflate | None
    chunks: list[bytes]


payloads = st.one_of(
    st.text(max_size=40).map(str.encode),
    st.sampled_from(
        [b"", b'{"type":"response.output_text.delta"}' * 9, b"x" * 125, b"x" * 126, b"x" * 65_536]
    ),
)
controls = st.tuples(st.sampled_from(["ping", "pong"]), st.binary(max_size=CONTROL_LIMIT))


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    from_client = draw(st.booleans())
    deflate = draw(st.none() | st.builds(Deflate, st.booleans(), st.integers(8, 15)))
    frames: list[bytes] = []
    expected: list[tuple[str, bytes]] = []
    compressor = _compressor(draw, deflate)

    def add(opcode: Any, payload: bytes, **options: bool) -> None:
        mask = draw(st.binary(min_size=4, max_size=4)) if from_client else None
        frames.append(encode_frame(opcode, payload, mask=mask, **options))

    for _ in range(draw(st.integers(0, 5))):
        opcode: Opcode = draw(st.sampled_from(["text", "binary"]))
        payload = draw(payloads if opcode == "text" else payloads | st.binary(max_size=300))
        wire, is_deflated = payload, deflate is not None and draw(st.booleans())
        if is_deflated and deflate is not None:
            if not deflate.context_takeover:
                compressor = _compressor(draw, deflate)
            at = draw(st.integers(0, len(payload)))
            flush = draw(
                st.sampled_from(
                    [zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_BLOCK]
                )
            )
            wire = compressor.compress(payload[:at]) + compressor.flush(flush) if flush else b""
            wire += compressor.compress(payload[at if flush else 0 :]) + compressor.flush(
                zlib.Z_SYNC_FLUSH
            )
            wire = wire.removesuffix(b"\0\0\xff\xff") if wire else EMPTY_DEFLATED
        cuts = sorted(draw(st.lists(st.integers(0, len(wire)), max_size=4)))
        fragments = [wire[a:b] for a, b in itertools.pairwise([0, *cuts, len(wire)])]
        for number, fragment in enumerate(fragments):
            fin = number == len(fragments) - 1
            add(
                "continuation" if number else opcode,
                fragment,
                fin=fin,
                rsv1=is_deflated and not number,
            )
            if not fin and draw(st.booleans()):
                expected.append(draw(controls))
                add(*expected[-1])
        expected.append((opcode, payload))
    data = b"".join(frames)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    chunks = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
    return Sent(
        data, [Frame(each[0], len(each)) for each in frames], expected, from_client, deflate, chunks
    )


def _compressor(draw: st.DrawFn, deflate: Deflate | None) -> Any:
    bits = max(deflate.window_bits, 9) if deflate else 15
    return zlib.compressobj(draw(st.integers(0, 9)), wbits=-bits, memLevel=draw(st.integers(1, 9)))


@pytest.mark.long
@given(sent())
@settings(max_examples=300)
def test_messages_are_those_that_were_sent_and_those_of_the_oracle(each: Sent) -> None:
    parts = parsed(each.chunks, from_client=each.from_client, deflate=each.deflate)
    assert messages(parts) == each.messages
    assert messages(parts) == oracle(each.data, from_client=each.from_client, deflate=each.deflate)
    assert [part for part in parts if isinstance(part, Frame)] == each.frames


@pytest.mark.long
@given(sent(), st.data())
@settings(max_examples=200)
def test_every_prefix_is_legal_and_cuts_do_not_matter(each: Sent, data: st.DataObject) -> None:
    prefix = each.data[: data.draw(st.integers(0, len(each.data)))]
    whole = parsed([prefix], from_client=each.from_client, deflate=each.deflate)
    size = data.draw(st.integers(1, 70_000))
    chunks = [prefix[at : at + size] for at in range(0, len(prefix), size)]
    assert parsed(chunks, from_client=each.from_client, deflate=each.deflate) == whole
    framed = sum(part.wire_bytes for part in whole if isinstance(part, Frame))
    cut = [part for part in whole if isinstance(part, Damage) and "inside a frame" in part.reason]
    assert framed + sum(len(part.raw) for part in cut) == len(prefix)
    done = [part for part in whole if isinstance(part, Message)]
    assert messages([*done]) == each.messages[: len(done)]


@given(sent())
def test_a_message_leaves_with_its_last_byte(each: Sent) -> None:
    """And not when more has come: the time that it is given is the one of that byte."""
    whole, cut = (
        MessageParser(from_client=each.from_client, deflate=each.deflate) for _ in range(2)
    )
    assert [part for chunk in each.chunks for part in cut.feed(chunk)] == whole.feed(each.data)
    assert cut.close() == []


frame_like = st.builds(
    lambda first, second, rest: bytes((first, second)) + rest,
    st.integers(0, 255),
    st.integers(0, 20) | st.integers(126, 148) | st.integers(254, 255),
    st.binary(max_size=24)
    | st.sampled_from([HELLO_DEFLATED, HELLO_FINAL, b"\0\0\0\0\0\0\0\x03abc"]),
)
strange = st.lists(frame_like | st.binary(max_size=9), max_size=8).map(b"".join)


@given(
    strange,
    st.booleans(),
    st.none() | st.builds(Deflate, st.booleans(), st.integers(8, 15)),
    st.integers(1, 9),
)
@settings(max_examples=200)
@example(b"\x01\x00\x81\xff\xff", True, None, 1)
def test_nothing_is_raised_whatever_the_bytes_and_cuts_do_not_matter(
    data: bytes, from_client: bool, deflate: Deflate | None, size: int
) -> None:
    whole = parsed([data], from_client=from_client, deflate=deflate)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert parsed(chunks, from_client=from_client, deflate=deflate) == whole
    assert sum(part.wire_bytes for part in whole if isinstance(part, Frame)) <= len(data)


# -- What real clients sent


def reads(name: str) -> list[dict[Mark, list[bytes]]]:
    """The answer to the handshake of each connection that was switched, and what was read of either
    side after it.
    """
    connections: dict[int, dict[Mark, list[bytes]]] = {}
    for step in transcript(name):
        each = connections.setdefault(
            step.connection, {Mark.RESPONSE: [], Mark.CLIENT_CHUNK: [], Mark.CHUNK: []}
        )
        if step.mark in each:
            each[step.mark].append(step.payload)
    return list(connections.values())


def decoded(name: str) -> list[dict[str, list[Any]]]:
    """The messages of each connection by direction.

    Those without a direction are openings and ends.
    """
    connections: dict[int, dict[str, list[Any]]] = {}
    for line in (TRANSCRIPTS / f"{name}-frames.jsonl").read_text().splitlines():
        each = json.loads(line)
        both = connections.setdefault(each["conn"], {"client->server": [], "server->client": []})
        if "eof" not in each and "dir" in each:
            both[each["dir"]].append(each)
    return list(connections.values())


def _homeless(data: object) -> str:
    """Return JSON without the folder of the client, which has another name in the decoded files."""
    return re.sub(r"/var/\w+/\w+/", "/", json.dumps(data))


@needs_transcripts
@table(
    "name",
    sorted(
        path.name.removesuffix("-raw-tcp.jsonl") for path in TRANSCRIPTS.glob("*-raw-tcp.jsonl")
    ),
)
def test_transcripts_are_parsed_as_they_were_decoded(name: str) -> None:
    for connection, told in zip(reads(name), decoded(name), strict=True):
        head = msgspec.json.decode(connection[Mark.RESPONSE][0], type=ResponseHead)
        agreed = negotiated(head.headers)
        assert not isinstance(agreed, str)
        for mark, lines, deflate in zip(
            (Mark.CLIENT_CHUNK, Mark.CHUNK), told.values(), agreed, strict=True
        ):
            chunks, is_client = connection[mark], mark is Mark.CLIENT_CHUNK
            found = messages(parsed(chunks, from_client=is_client, deflate=deflate))
            assert found == oracle(b"".join(chunks), from_client=is_client, deflate=deflate)
            texts = [data for opcode, data in found if opcode == "text"]
            # in truth: characters
            assert [len(data.decode()) for data in texts] == [line["bytes"] for line in lines]
            assert [_homeless(json.loads(data)) for data in texts] == [
                _homeless(line["data"]) for line in lines
            ]


# -- Rules that are broken

OVER = f"a message is longer than {MESSAGE_LIMIT >> 20} MiB"


def of_server(
    data: bytes, *expected: Part, deflate: Deflate | None = None
) -> tuple[bool, Deflate | None, bytes, Any]:
    return False, deflate, data, [*expected]


def of_client(data: bytes, *expected: Part) -> tuple[bool, Deflate | None, bytes, Any]:
    return True, None, data, [*expected]


BAD_INPUT = {
    "an unmasked client": of_client(
        b"\x81\x02hi", Message("text", b"hi", "a frame of the client is not masked")
    ),
    "a masked server": of_server(
        b"\x81\x82" + KEY + unmask(b"hi", KEY),
        Message("text", b"hi", "a frame of the server is masked"),
    ),
    "a reserved opcode": of_server(b"\x83\x02hi", Damage(b"hi", "opcode 3 is reserved")),
    "a reserved control opcode": of_server(b"\x8b\x02hi", Damage(b"hi", "opcode 11 is reserved")),
    "a masked reserved opcode": of_client(
        b"\x83\x82" + KEY + unmask(b"hi", KEY), Damage(b"hi", "opcode 3 is reserved")
    ),
    "compressed unasked": of_server(
        b"\xc1\x07" + HELLO_DEFLATED,
        Damage(HELLO_DEFLATED, "RSV1 is set: compressed, but no compression was agreed on"),
    ),
    "RSV2": of_server(
        b"\xa1\x02hi",
        Damage(b"hi", "RSV2 or RSV3 is set: an extension that was not agreed on"),
        deflate=TAKEOVER,
    ),
    "RSV1 in a ping": of_server(
        b"\xc9\x00",
        Message("ping", b"", "a reserved bit is set in a control frame"),
        deflate=TAKEOVER,
    ),
    "RSV1 in a continuation": of_server(
        b"\x01\x01h\xc0\x01i",
        Message("text", b"hi", "a reserved bit is set in a continuation"),
        deflate=TAKEOVER,
    ),
    "a long length": of_server(
        b"\x81\x7e\x00\x02hi", Message("text", b"hi", "a length has more bytes than it needs")
    ),
    "a very long length": of_server(
        b"\x81\x7f" + (126).to_bytes(8) + b"x" * 126,
        Message("text", b"x" * 126, "a length has more bytes than it needs"),
    ),
    "a length over the bound": of_server(
        b"\x81\x7f" + (MESSAGE_LIMIT + 1).to_bytes(8) + b"and more",
        Damage(b"\x81\x7f" + (MESSAGE_LIMIT + 1).to_bytes(8) + b"and more", OVER),
    ),
    "the longest length": of_client(b"\x81" + b"\xff" * 9, Damage(b"\x81" + b"\xff" * 9, OVER)),
    "fragments over the bound": of_server(
        b"\x01\x02hi\x80\x7f" + MESSAGE_LIMIT.to_bytes(8) + b"x",
        Damage(b"hi\x80\x7f" + MESSAGE_LIMIT.to_bytes(8) + b"x", OVER),
    ),
    "a text that is not UTF-8": of_server(
        b"\x81\x02\xc3(", Message("text", b"\xc3(", "a text is not UTF-8")
    ),
    "a text that is cut": of_server(
        b"\x81\x01\xc3", Message("text", b"\xc3", "a text is not UTF-8")
    ),
    "a character in two fragments": of_server(
        b"\x01\x01\xc3\x80\x01\xa9", Message("text", b"\xc3\xa9")
    ),
    "a binary that is not UTF-8": of_server(b"\x82\x01\xc3", Message("binary", b"\xc3")),
    "a close": of_server(b"\x88\x02\x03\xe8", Message("close", b"\x03\xe8")),
    "an empty close": of_server(b"\x88\x00", Message("close", b"")),
    "half a code": of_server(b"\x88\x01\x03", Message("close", b"\x03", "a close has half a code")),
    "a close code of nobody": of_server(
        b"\x88\x02\x03\xee",
        Message("close", b"\x03\xee", "1006 is not a code to be sent in a close"),
    ),
    "a close reason that is not UTF-8": of_server(
        b"\x88\x03\x03\xe8\xff",
        Message("close", b"\x03\xe8\xff", "the reason of a close is not UTF-8"),
    ),
    "a fragmented ping": of_server(
        b"\x09\x01x", Message("ping", b"x", "a control frame is fragmented")
    ),
    "a long ping": of_server(
        b"\x89\x7e\x00\x7e" + b"x" * 126,
        Message("ping", b"x" * 126, "a control frame has more than 125 bytes"),
    ),
    "a lonely continuation": of_server(
        b"\x80\x01x", Damage(b"x", "a continuation follows no message")
    ),
    "a message in a message": of_server(
        b"\x01\x01x\x81\x01y\x80\x01z",
        Damage(b"x", "a message began before the one before it had ended"),
        Message("text", b"y"),
        Damage(b"z", "a continuation follows no message"),
    ),
    "an end in a message": of_server(
        b"\x01\x01x\x89\x00\x80",
        Message("ping", b""),
        Damage(b"x", "the connection ended inside a message"),
        Damage(b"\x80", "the connection ended inside a frame"),
    ),
    "an end in a masked frame": of_client(
        b"\x81\x83" + KEY + unmask(b"hi", KEY),
        Damage(b"\x81\x83" + KEY + b"hi", "the connection ended inside a frame"),
    ),
    "an end in a mask": of_client(
        b"\x81\x83\x01", Damage(b"\x81\x83\x01", "the connection ended inside a frame")
    ),
}


@table(("from_client", "deflate", "data", "expected"), BAD_INPUT.values())
def test_broken_rules_are_faults_or_damage(
    from_client: bool, deflate: Deflate | None, data: bytes, expected: list[Part]
) -> None:
    for chunks in ([data], bytewise(data)):
        parts = parsed(chunks, from_client=from_client, deflate=deflate)
        assert [part for part in parts if not isinstance(part, Frame)] == expected


def test_frames_are_emitted_before_what_they_carry() -> None:
    data = b"\x01\x01h\x89\x00\x80\x01i"
    ping, text = Message("ping", b""), Message("text", b"hi")
    assert parsed([data]) == [Frame(0x01, 3), Frame(0x89, 2), ping, Frame(0x80, 3), text]


# -- Compression


def deflated(*payloads: bytes) -> bytes:
    return b"".join(encode_frame("text", payload, rsv1=True) for payload in payloads)


@table("payload", [HELLO_DEFLATED, HELLO_STORED, HELLO_FINAL, HELLO_TWO_BLOCKS, HELLO_FINAL[:-1]])
@table("deflate", [TAKEOVER, NO_TAKEOVER])
def test_the_examples_of_the_standard_are_inflated(payload: bytes, deflate: Deflate) -> None:
    found = messages(parsed([deflated(payload, EMPTY_DEFLATED, b"", payload)], deflate=deflate))
    assert [data for _, data in found] == [b"Hello", b"", b"", b"Hello"]


@pytest.mark.parametrize("before", [HELLO_DEFLATED, HELLO_FINAL, HELLO_FINAL[:-1]])
def test_a_message_refers_to_those_before_it(before: bytes) -> None:
    plain = encode_frame("text", b"xxxxx")
    data = deflated(before) + plain + deflated(HELLO_AGAIN)
    assert [data for _, data in messages(parsed([data], deflate=TAKEOVER))] == [
        b"Hello",
        b"xxxxx",
        b"Hello",
    ]
    assert [type(part) for part in parsed([data], deflate=NO_TAKEOVER)][-1] is Damage


@table("end", range(1, len(HELLO_TWO_BLOCKS)))
def test_a_message_that_ends_inside_a_block_is_damage(end: int) -> None:
    (_, part) = parsed([deflated(HELLO_TWO_BLOCKS[:end])], deflate=TAKEOVER)
    # at the end of the first block
    is_whole = isinstance(part, Message) and part.payload == b"He" and end in (4, 5)
    assert is_whole or (isinstance(part, Damage) and part.raw == HELLO_TWO_BLOCKS[:end])


@table(("deflate", "is_read"), [(TAKEOVER, False), (NO_TAKEOVER, True)])
@table(
    "damage",
    [
        deflated(b"\xff\xff\xff"),
        deflated(b"\x03\x00" * (FINAL_BLOCKS_LIMIT + 1)),
        b"\x41\x01x" + encode_frame("text", b""),
        b"\xe1\x07" + HELLO_DEFLATED,
    ],
)
def test_with_context_takeover_nothing_is_inflated_behind_damage(
    damage: bytes, deflate: Deflate, is_read: bool
) -> None:
    data = (
        deflated(HELLO_DEFLATED)
        + damage
        + deflated(HELLO_DEFLATED)
        + encode_frame("text", b"plain")
    )
    parts = [part for part in parsed([data], deflate=deflate) if not isinstance(part, Frame)]
    assert parts[0] == Message("text", b"Hello")
    assert any(isinstance(part, Damage) for part in parts[1:-2])
    lost = Damage(
        HELLO_DEFLATED, "cannot be inflated: an earlier message, to which it may refer, is damaged"
    )
    assert parts[-2:] == [Message("text", b"Hello") if is_read else lost, Message("text", b"plain")]


@pytest.mark.parametrize("more", [0, 1])
def test_a_bomb_is_damage(more: int) -> None:
    compressor = zlib.compressobj(1, wbits=-15)
    bomb = compressor.compress(b"x" * (MESSAGE_LIMIT + more)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    parser = MessageParser(from_client=False, deflate=TAKEOVER)
    (_, part) = parser.feed(deflated(bomb[:-4]))
    if more:
        # in a comparison it would be shown
        assert isinstance(part, Damage), "a message of more than the bound"
        assert part == Damage(bomb[:-4], "cannot be inflated: it inflates to more than 64 MiB")
    else:
        assert isinstance(part, Message)
        assert len(part.payload) == MESSAGE_LIMIT


# -- Bounds


def test_a_length_is_not_memory() -> None:
    tracemalloc.start()
    try:
        parsers = [MessageParser(from_client=False) for _ in range(100)]
        for parser in parsers:
            assert parser.feed(b"\x81\x7f" + MESSAGE_LIMIT.to_bytes(8)) == []
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_fragments_need_the_memory_of_their_bytes() -> None:
    parser, count = MessageParser(from_client=False), 100_000
    parser.feed(b"\x01\x00")
    tracemalloc.start()
    try:
        for _ in range(count):
            parser.feed(b"\x00\x01x")
            parser.feed(b"\x00\x00")
        assert tracemalloc.get_traced_memory()[1] < 2 * count
    finally:
        tracemalloc.stop()
    assert parser.feed(b"\x80\x00")[-1] == Message("text", b"x" * count)


def test_fragments_over_the_bound_are_let_go() -> None:
    parser, fragment = (
        MessageParser(from_client=False),
        encode_frame("continuation", b"x" * 2**20, fin=False),
    )
    parser.feed(b"\x01\x00")
    for _ in range(MESSAGE_LIMIT >> 20):
        assert parser.feed(fragment) == [Frame(0, len(fragment))]
    (held, rest) = parser.feed(fragment)
    assert held == Damage(b"x" * MESSAGE_LIMIT, OVER)
    assert rest == Damage(fragment, OVER)
    assert parser.feed(b"\x81\x00") == [Damage(b"\x81\x00", OVER)]
    assert parser.close() == []


@pytest.mark.timed
@pytest.mark.parametrize(
    "data",
    [
        encode_frame("text", b"x" * 200_000, mask=KEY) * 2,
        b"\x01\x00" + b"\x00\x01x" * 66_000,
        b"\x01\x80" + KEY + (b"\x00\x81" + KEY + b"x") * 55_000,
    ],
    ids=["one frame", "unmasked fragments", "fragments"],
)
def test_work_is_linear_in_single_bytes(data: bytes) -> None:
    def cost(size: int) -> float:
        chunks = bytewise(data[:size])
        best = float("inf")
        for _ in range(3):
            started, parser = time.process_time(), MessageParser(from_client=True)
            # what comes of them is let go: to look through it is work of the garbage collector
            for chunk in chunks:
                parser.feed(chunk)
            parser.close()
            best = min(best, time.process_time() - started)
        return best

    assert cost(120_000) < 12 * cost(20_000), (
        "six times the input may not cost more than twelve times the work"
    )


# -- Handshake and frames of our own


NAME = "permessage-deflate"
AGREED: dict[tuple[str, ...], object] = {
    (): (None, None),
    (" ",): (None, None),
    ("permessage-deflate",): (TAKEOVER, TAKEOVER),
    (f'{NAME}; server_max_window_bits=12; client_max_window_bits="8"',): (
        Deflate(True, 8),
        Deflate(True, 12),
    ),
    (f"{NAME} ;server_no_context_takeover;client_max_window_bits = 10",): (
        Deflate(True, 10),
        Deflate(False, 15),
    ),
    ("Permessage-Deflate; client_no_context_takeover, ",): (Deflate(False, 15), Deflate(True, 15)),
    ("x-webkit-deflate-frame",): "the extension 'x-webkit-deflate-frame' is not known",
    ("permessage-deflate", "permessage-deflate"): "there is more than one extension",
}
UNKNOWN = [
    *("server_max_window_bits=7", "server_max_window_bits=16", "server_max_window_bits", "x=1", ""),
    *("client_max_window_bits=08", "server_no_context_takeover=1", "client_max_window_bits=\u0669"),
]


@table(("values", "expected"), AGREED.items())
def test_the_response_says_how_each_side_compresses(
    values: tuple[str, ...], expected: object
) -> None:
    assert negotiated([("Sec-WebSocket-Extensions", value) for value in values]) == expected


@table("parameter", UNKNOWN)
def test_a_parameter_that_is_not_known_is_named(parameter: str) -> None:
    found = negotiated([("sec-websocket-extensions", f"permessage-deflate; {parameter}")])
    assert found == f"the parameter {parameter!r} of permessage-deflate is not known"


@given(st.text())
def test_any_header_is_read_or_refused(value: str) -> None:
    assert negotiated([("sec-websocket-extensions", value)]) is not None
    assert len(accept_of(value)) == 28


def test_the_answer_to_a_key_is_that_of_the_standard() -> None:
    # RFC 6455 section 1.3
    assert accept_of("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masks_are_those_of_the_oracle(payload: bytes, key: bytes) -> None:
    assert unmask(payload, key) == apply_mask(payload, key)
    assert unmask(unmask(payload, key), key) == payload


@given(
    st.sampled_from(["text", "binary", "ping", "pong", "close"]),
    st.sampled_from([0, 125, 126, 65_535, 65_536]),
)
def test_frames_of_our_own_are_those_of_the_oracle(opcode: Opcode, size: int) -> None:
    if size > CONTROL_LIMIT and opcode not in ("text", "binary"):
        return
    frame = oracle_frames.Frame(oracle_frames.Opcode[opcode.upper()], b"x" * size)
    assert encode_frame(opcode, b"x" * size) == frame.serialize(mask=False)


@given(st.none() | st.integers(0, 0xFFFF), st.text())
@example(1000, "é" * 62)
def test_a_close_is_read_as_it_was_made(code: int | None, reason: str) -> None:
    frame, message = MessageParser(from_client=True).feed(encode_close(code, reason, mask=KEY))
    assert isinstance(frame, Frame)
    assert isinstance(message, Message)
    found_code, found_reason = close_of(message.payload)
    assert found_code == code
    assert (found_reason is None) == (code is None)
    assert reason.encode("utf-8", "replace").decode().startswith(found_reason or "")
    assert len(message.payload) <= CONTROL_LIMIT


@table("code", [*range(990, 1020), 2999, 3000, 4999, 5000])
def test_close_codes_are_those_that_the_oracle_lets_pass(code: int) -> None:
    (_, message) = MessageParser(from_client=False).feed(encode_close(code))
    assert isinstance(message, Message)
    allowed = code in oracle_frames.EXTERNAL_CLOSE_CODES or 3000 <= code < 5000
    assert (message.fault is None) == allowed
