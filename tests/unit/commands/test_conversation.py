"""A session as a person reads it: of hand-made snapshots, whatever they hold."""

from __future__ import annotations

import json
import re
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recorder.commands.terminal.conversation import as_written, conversation
from recorder.model.events import Exchange, Session
from recorder.model.facts import ItemKind
from recorder.model.text import safe_text
from recorder.projections.rows import AnomalyRow, ExchangeRow, ItemRow, TimingRow, UsageRow
from recorder.store.queries.session_document import document
from recorder.store.queries.session_state import CallResult, ExchangeState, Snapshot
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.facts import captured, folded
from tests.support.rows import row

FINISHED = [
    ("completed", "stop", "completed"),
    ("completed", "completed", "completed"),
    ("completed", None, "completed"),
    ("completed", "max_tokens", "completed (max_tokens)"),
    ("completed", "SAFETY", "completed (SAFETY)"),
    ("incomplete", "max_output_tokens", "incomplete (max_output_tokens)"),
    ("failed", "failed", "failed"),
    (None, "length", "open (length)"),
]

CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"


@pytest.mark.parametrize(("status", "reason", "shown"), FINISHED)
def test_an_end_that_is_no_usual_one_is_named(
    status: str | None, reason: str | None, shown: str
) -> None:
    snapshot = _snapshot([])
    ended = row(ExchangeRow, EXCHANGE, status=status, finish_reason=reason)
    taken = msgspec.structs.replace(snapshot.exchanges[0], row=ended)
    lines = [
        line.plain
        for line in conversation(msgspec.structs.replace(snapshot, exchanges=[taken]), None)
    ]
    assert lines[3].split(" · ")[2] == shown


def test_imported_times_are_not_believed() -> None:
    live = _snapshot([])
    imported = msgspec.structs.replace(
        live, session=msgspec.structs.replace(live.session, origin="import")
    )
    headers = [next(conversation(each, None)).plain for each in (live, imported)]
    assert [header.endswith(" · imported, times may be made up") for header in headers] == [
        False,
        True,
    ]


PICTURE = json.dumps({"images": [{"mime_type": "image/png", "size_bytes": 12345, "sha256": "ab"}]})


def test_any_other_item_is_shown_with_all_it_has() -> None:
    asks = row(
        ItemRow,
        EXCHANGE,
        item=3,
        kind="other",
        type="mcp_approval_request",
        name="roll",
        arguments="{}",
    )
    drawn = row(ItemRow, EXCHANGE, item=4, kind="other", type="inline_data", output=PICTURE)
    listed = row(
        ItemRow,
        EXCHANGE,
        item=5,
        kind="other",
        type="mcp_list_tools",
        call_id="c",
        output="[]\r\n" * 99,
    )
    snapshot = _snapshot([asks, drawn, listed])
    piped, shown = ([line.plain for line in conversation(snapshot, width)] for width in (None, 40))
    assert piped[5:10] == [
        "⚙ mcp_approval_request roll {}",
        "⚙ inline_data",
        "  → image/png, 12,345 bytes",
        "⚙ mcp_list_tools",
        "  → []",
    ]
    assert piped.count("    []") == 98
    assert sum("[]" in line for line in shown) == 1
    first, _, last = document(snapshot)["exchanges"][0]["items"]
    assert (first["name"], first["arguments"], last["call_id"], last["output"][:2]) == (
        "roll",
        "{}",
        "c",
        "[]",
    )


def test_what_is_no_description_of_pictures_is_shown_as_it_is() -> None:
    for output in ('{"images": [], "more": 1}', '{"images": "none"}', "[" * 20_000, "\ud800"):
        item = row(ItemRow, EXCHANGE, item=1, kind="other", type="t", output=output)
        assert f"  → {safe_text(output)}" in [
            line.plain for line in conversation(_snapshot([item]), None)
        ]


def test_a_carriage_return_at_the_end_of_a_line_is_a_part_of_that_end() -> None:
    item = row(
        ItemRow,
        EXCHANGE,
        item=1,
        kind="message",
        type="message",
        text="one\r\ntwo\r\r\n\r\n50%\r60%\r",
    )
    assert [line.plain for line in conversation(_snapshot([item]), None)][5:9] == [
        "one",
        "two",
        "",
        "50%\\x0d60%",
    ]


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(conversation(_snapshot([]), 80))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32m" in "".join(as_written(lines, 80))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", "".join(as_written(lines, 80)))
    assert "\x1b" not in "".join(as_written(lines, None))


EXCHANGE = Exchange("s", "e", 0, "r", "openai", "openai-responses", "POST", "/v1/responses")


def _snapshot(said: list[ItemRow], text: str = "text", output: str = "out") -> Snapshot:
    """One exchange in which every text is the same."""
    texts = {"user_text": text, "response_model": text, "error": text}
    taken = ExchangeState(
        number=1,
        exchange=msgspec.structs.replace(EXCHANGE, target=text, method=text),
        row=row(ExchangeRow, EXCHANGE, is_turn=True, status="completed", **texts),
        items=said,
        usage=row(UsageRow, EXCHANGE, input_tokens=1),
        timing=row(TimingRow, EXCHANGE, ttft_ns=1),
        anomalies=[row(AnomalyRow, EXCHANGE, kind="malformed", detail=text, count=2)],
        answers={0: CallResult(output, None, 1)},
    )
    return Snapshot(Session("s", 0, text, "path", "{}", "live"), text, True, None, [taken])


anything = st.text() | st.text(
    st.characters(codec="utf-8", categories=("Cc", "Cf", "Zl", "Zp", "Lo")), max_size=200
)


@given(anything, anything, st.sampled_from(get_args(ItemKind)), st.sampled_from([None, 20, 80]))
def test_nothing_recorded_controls_a_terminal(
    text: str, output: str, kind: ItemKind, width: int | None
) -> None:
    cited = json.dumps([{"url": text, "web": {"uri": output}, "title": text}])
    fields = {
        "text": text,
        "refusal": text,
        "summary_text": text,
        "arguments": output,
        "annotations": cited,
    }
    item = row(ItemRow, EXCHANGE, kind=kind, type=text, name=text, **fields)
    shown = [line.plain for line in conversation(_snapshot([item], text, output), width)]
    assert not re.search(CONTROLS, "".join(shown).replace("\t", " "))
    assert all("\n" not in line for line in shown)
    assert width is None or all(cell_len(line) <= max(width, 40) for line in shown)


@needs_corpus
def test_every_stream_of_the_corpus_can_be_shown() -> None:
    for entry in (entry for entry in corpus_index() if entry["core"]):
        exchange, events = captured(
            (CORPUS / entry["file"]).read_bytes(), _API.get(entry["provider"], "other")
        )
        rows = folded(exchange, events)
        [told], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
        taken = ExchangeState(
            1, exchange, told, rows["items"], usage, timing, rows["anomalies"], {}
        )
        snapshot = Snapshot(Session("s", 0, "s", "path", "{}", "live"), None, True, None, [taken])
        piped, shown = (
            [line.plain for line in conversation(snapshot, width)] for width in (None, 80)
        )
        assert not re.search(CONTROLS, "".join(piped).replace("\t", " "))
        assert all(cell_len(line.rstrip()) <= 80 for line in shown)
        [written] = json.loads(msgspec.json.encode(document(snapshot)))["exchanges"]
        assert len(written["items"]) == len(rows["items"])
        for item in (item for item in written["items"] if item.get("text")):
            first = safe_text(item["text"]).strip("\n").split("\n")[0].rstrip()
            assert any(line.endswith(first) for line in piped), entry["file"]


_API = {name: name for name in ("anthropic", "gemini", "openai-chat", "openai-responses")}
