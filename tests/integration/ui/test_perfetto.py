"""`recorder export --format perfetto`, checked against the documented fields of the trace-event
format.

The classes below are the tables of docs/formats.md, which follow "Trace Event Format" (Google,
2016): a field that is missing, of another type or not in the table fails. Perfetto's own reader is
a program that has to be downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.ui.lanes import timeline
from recorder.ui.perfetto import trace
from tests.support.conversations import Conversations, answering, asking, call, message, response
from tests.support.corpus import ROOT
from tests.support.server import run

Id = Annotated[int, msgspec.Meta(ge=0)]
Microseconds = Annotated[int, msgspec.Meta(ge=0)]


class Metadata(msgspec.Struct, tag="M", tag_field="ph", forbid_unknown_fields=True):
    name: Literal["process_name", "thread_name", "thread_sort_index"]
    pid: Literal[1]
    tid: Id
    args: dict[Literal["name", "sort_index"], str | int]


class Complete(msgspec.Struct, tag="X", tag_field="ph", forbid_unknown_fields=True):
    name: str
    cat: str
    ts: Microseconds
    dur: Annotated[int, msgspec.Meta(ge=1)]
    pid: Literal[1]
    tid: Id
    args: dict[Literal["exchange", "first_pos", "last_pos", "text_chars", "is_open"], int | bool]


class Instant(msgspec.Struct, tag="i", tag_field="ph", forbid_unknown_fields=True):
    s: Literal["t"]
    name: str
    cat: str
    ts: Microseconds
    pid: Literal[1]
    tid: Id
    args: dict[str, int | str]


class FlowStart(msgspec.Struct, tag="s", tag_field="ph", forbid_unknown_fields=True):
    id: Id
    name: str
    cat: Literal["flow"]
    ts: Microseconds
    pid: Literal[1]
    tid: Id


class FlowEnd(FlowStart, tag="f", tag_field="ph", forbid_unknown_fields=True):
    bp: Literal["e"]


TraceEvent = Metadata | Complete | Instant | FlowStart | FlowEnd


class Trace(msgspec.Struct, forbid_unknown_fields=True):
    displayTimeUnit: Literal["ms"]
    otherData: dict[str, str | int]
    traceEvents: list[TraceEvent]

    def only(self, kind: Any) -> list[Any]:
        return [event for event in self.traceEvents if type(event) is kind]

    def lane(self, tid: int) -> str:
        """The name of a thread."""
        [found] = [
            each for each in self.only(Metadata) if each.name == "thread_name" and each.tid == tid
        ]
        return str(found.args["name"])


def traced(db: Path, *options: object) -> Trace:
    ran = run(db, "export", "latest", "--format", "perfetto", *options)
    assert ran.code == 0, ran.err
    return msgspec.json.decode(ran.out, type=Trace)


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Two calls whose results come in two requests, the other way round, and a last word."""
    log = Conversations(tmp_path / "log.db")
    session = log.session("talk")
    session.exchange(
        response(*call("first", "{}", 0, "call_1"), *call("second", "{}", 1, "call_2")),
        asking("Go"),
    )
    asked = [*asking("Go"), *answering("one", "call_1")]
    session.exchange(response(*message("Wait."), id="resp_2"), asked, at_s=5)
    asked += answering("two", "call_2")
    session.exchange(response(*message("It is ", "done."), id="resp_3"), asked, at_s=9)
    return log.path


def test_a_trace_has_the_documented_fields_alone(demo_recording: Path) -> None:
    found = traced(demo_recording)
    assert {type(event) for event in found.traceEvents} == {
        Metadata,
        Complete,
        Instant,
        FlowStart,
        FlowEnd,
    }


def test_each_event_of_the_log_is_an_instant_at_its_time(talk: Path) -> None:
    rows = msgspec.json.decode(run(talk, "events", "latest", "--json").out)
    instants = traced(talk).only(Instant)
    assert [(each.args["pos"], each.name, each.cat) for each in instants] == [
        (row["pos"], row["type"] or row["kind"], row["kind"]) for row in rows
    ]
    assert [each.ts for each in instants][: rows[-1]["pos"]] == [
        row["t_ns"] // 1000 for row in rows
    ][: rows[-1]["pos"]]
    assert all(
        each.args["size_bytes"] == len(row["raw"].encode())
        for each, row in zip(instants, rows, strict=True)
    )


def test_blocks_lie_beside_or_inside_each_other(talk: Path, demo_recording: Path) -> None:
    for found in (traced(talk), traced(demo_recording)):
        threads = dict[int, list[Complete]]()
        for block in found.only(Complete):
            threads.setdefault(block.tid, []).append(block)
        for blocks in threads.values():
            ends = list[int]()
            for block in sorted(blocks, key=lambda each: (each.ts, -each.dur)):
                while ends and ends[-1] <= block.ts:
                    ends.pop()
                assert not ends or block.ts + block.dur <= ends[-1]
                ends.append(block.ts + block.dur)


def test_what_overlaps_is_on_a_second_thread_of_its_name(talk: Path) -> None:
    found = traced(talk)
    waits = [each for each in found.only(Complete) if each.cat == "client"]
    assert [found.lane(each.tid) for each in waits] == ["client", "client"]
    assert waits[0].tid != waits[1].tid


def test_blocks_count_the_text_that_their_events_brought(talk: Path) -> None:
    [said] = [
        each
        for each in traced(talk).only(Complete)
        if each.cat == "message" and each.args["exchange"] == 3
    ]
    assert said.args["text_chars"] == len("It is done.")


async def test_lanes_are_those_of_the_viewer(talk: Path) -> None:
    async with await LogReader.open(talk) as log:
        labels = {row.label for row in (await timeline(log, "latest")).rows}
    found = traced(talk)
    names = {found.lane(each.tid) for each in found.only(Metadata) if each.name == "thread_name"}
    assert names == labels == {"connection", "output 0", "output 1", "client"}


def test_a_call_leads_to_the_request_with_its_result(talk: Path) -> None:
    found = traced(talk)
    starts, ends = found.only(FlowStart), found.only(FlowEnd)
    assert [each.id for each in starts] == [each.id for each in ends] == [1, 2]
    assert [found.lane(each.tid) for each in starts] == ["output 0", "output 1"]
    assert {found.lane(each.tid) for each in ends} == {"connection"}
    assert [each.ts for each in ends] == [5_000_000, 9_000_000]


def test_one_exchange_has_its_place_in_the_session(talk: Path) -> None:
    found = traced(talk, "--exchange", 2)
    assert {each.args["exchange"] for each in found.only(Instant)} == {2}
    assert min(each.ts for each in found.only(Instant)) == 5_000_000
    assert not found.only(FlowStart)


async def test_memory_holds_a_page_of_the_log(talk: Path) -> None:
    async with await LogReader.open(talk) as log:
        session = await session_named(log, "latest")
        chosen = list(enumerate(await log.exchanges(session.session_id), 1))
        found = [
            part
            async for part in trace(log, session, chosen, await timeline(log, session.session_id))
        ]
    assert max(map(len, found)) < 1000
    assert all(part.startswith((b",\n", b'{"displayTimeUnit"', b"\n]}\n")) for part in found)


def test_the_documentation_has_every_field() -> None:
    text = (ROOT / "docs" / "formats.md").read_text()
    table = text[text.index("## Perfetto") :]
    for each in (Metadata, Complete, Instant, FlowStart, FlowEnd):
        row = next(
            line
            for line in table.splitlines()
            if line.startswith(f"| `{each.__struct_config__.tag}` |")
        )
        missing = [name for name in each.__struct_fields__ if f"`{name}`" not in row]
        assert not missing, row
