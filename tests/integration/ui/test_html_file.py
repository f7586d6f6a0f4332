"""`recorder export --format html`: one file, with the data that the API gives, without secrets,
without a network.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.recordings.selection import select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.ui import asked, html_file, raw
from recorder.wire.redaction.bodies import Redactor
from tests.support.conversations import Conversations, asking, message, response, sse
from tests.support.corpus import CORPUS, corpus_files, needs_corpus
from tests.support.html_file import data_of, document_at, exported, put_together, raws, written_data
from tests.support.secret_shapes import made, secrets_of
from tests.support.server import PROGRAM, environment, run
from tests.support.viewer import SAMPLE, hang, poison

SECRETS = secrets_of(7)
KEY = SECRETS["openai project"]


def shown(db: Path, session: str, number: int, pos: int) -> Any:
    """What `recorder show` says of an exchange after an event."""
    ran = run(db, "show", session, number, "--at-event", pos, "--json")
    return json.loads(ran.out)["exchanges"][0]


def details(db: Path, session: str, number: int, positions: Sequence[int]) -> list[Any]:
    """What the API answers about events."""

    async def ask() -> list[Any]:
        async with await LogReader.open(db) as log:
            return [
                msgspec.to_builtins(await raw.details(log, session, str(number), pos))
                for pos in positions
            ]

    return asyncio.run(ask())


def recorded(rows: list[Any]) -> list[bytes]:
    """The bytes of events as `recorder events --json` has them."""
    given = [row["raw"] for row in rows]
    return [
        raw.encode() if isinstance(raw, str) else base64.b64decode(raw["base64"]) for raw in given
    ]


def all_raws(data: dict[str, Any]) -> list[bytes]:
    return [raw for number in data["exchanges"] for raw in raws(data, int(number))]


# -- the data is that of the API


@pytest.mark.long
def test_events_have_the_bytes_keys_reads_and_chain_of_the_api(demo_recording: Path) -> None:
    data = data_of(exported(demo_recording, "latest"))
    for number in (1, 3, 6):
        exchange = data["exchanges"][str(number)]
        own, found = exchange["events"], raws(data, number)
        hashes = base64.b64decode(own["hash"])
        answers = details(demo_recording, "latest", number, range(exchange["last"] + 1))
        for pos, answer in enumerate(answers):
            event = answer["event"]
            assert found[pos] == event["raw"].encode()
            assert hashes[32 * pos : 32 * pos + 32].hex() == answer["chain"]["hash"]
            assert answer["chain"]["holds"] is (pos not in own["broken"])
            for name in ("data_start", "data_length"):
                assert own[name][pos] == (-1 if event[name] is None else event[name])
            assert own["sequence_number"][pos] == event["sequence_number"]
            assert own["output_index"][pos] == event["output_index"]
            assert (
                own["item_ids"][own["item_id"][pos]] if own["item_id"][pos] >= 0 else None
            ) == event["item_id"]
            offset = -1 if answer["body_offset"] is None else answer["body_offset"]
            assert own["body_offset"][pos] == offset
            first = own["read_first"][pos]
            reads = (
                None if first == -1 else exchange["reads"][first : first + own["read_count"][pos]]
            )
            assert reads == (answer["reads"] and [list(each) for each in answer["reads"]])


def test_a_text_that_requests_repeat_is_in_the_file_once(tmp_path: Path) -> None:
    asked = made("abcdefghij", 300)
    log = Conversations(tmp_path / "log.db")
    session = log.session("talk")
    for number in range(3):
        session.exchange(response(*message("Yes.")), asking(asked), at_s=number * 5)
    written = written_data(exported(log.path, "talk"))
    assert written.count(asked[200:]) == 1


@pytest.mark.long
@needs_corpus
def test_documents_are_those_of_show(tmp_path: Path) -> None:
    hang(tmp_path / "log.db", SAMPLE)
    for name in SAMPLE:
        session = Path(name).name.removesuffix(".sse")
        data = data_of(exported(tmp_path / "log.db", session))
        last = data["exchanges"]["1"]["last"]
        for pos in sorted({0, 3, last // 3, last // 2, last - 1, last}):
            assert document_at(data, 1, pos) == shown(tmp_path / "log.db", session, 1, pos), (
                session,
                pos,
            )


@pytest.mark.long
@needs_corpus
# One part is quick, with streams of each API; all of them take seconds.
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 8))]
)
def test_bytes_are_exact_for_the_corpus(part: int, tmp_path: Path) -> None:
    names = [str(path.relative_to(CORPUS)) for path in corpus_files()][part::8]
    hang(tmp_path / "log.db", names)
    sessions = json.loads(run(tmp_path / "log.db", "sessions", "--json", "--limit", 1000).out)
    assert len(sessions) >= len(names) // 2
    for each in sessions:
        data = data_of(exported(tmp_path / "log.db", each["session_id"]))
        rows = json.loads(run(tmp_path / "log.db", "events", each["session_id"], "--json").out)
        assert all_raws(data) == recorded(rows), each["name"]


# -- hostile texts


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which every text is hostile, and one is long."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    poison(path, 2**17)
    return path


def test_hostile_texts_stay_data(hostile: Path) -> None:
    for row in json.loads(run(hostile, "sessions", "--json").out):
        page = exported(hostile, row["session_id"])
        assert page.count("</script>") == page.count("<script") == 2
        assert "<!--" not in page
        assert "\u2028" not in page
        assert "\0" not in page
        data = data_of(page)
        rows = json.loads(run(hostile, "events", row["session_id"], "--json").out)
        assert all_raws(data) == recorded(rows)


@pytest.mark.long
def test_a_large_file_is_deflated(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    words = ["</script><!-- \u2028 ", *(made("abcdefghij ", 4000, number) for number in range(300))]
    log.session("long").exchange(response(*message(*words)), asking("Go"))
    page = exported(log.path, "long")
    assert 'data-coding="deflate"' in page
    assert page.count("</script>") == 2
    rows = json.loads(run(log.path, "events", "long", "--json").out)
    assert raws(data_of(page), 1) == [row["raw"].encode() for row in rows]


# -- what runs in it


def test_the_policy_has_the_digests_of_what_is_in_the_page(demo_recording: Path) -> None:
    page = exported(demo_recording, "latest")
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    for name, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_nothing_in_the_page_is_elsewhere(demo_recording: Path) -> None:
    page = exported(demo_recording, "latest")
    # a name, no address
    shell = page.replace(written_data(page), "").replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", shell)
    assert not re.findall(r"<(?:link|img|iframe|script [^>]*src)", shell)
    assert not re.findall(r"@import|url\(", shell)


# -- secrets


HEADERS = [("Authorization", "REDACTED (56 bytes)"), ("X-App", "x")]


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A log with secrets in a response: in one delta, over many deltas, and in what nothing makes
    sense of.
    """
    log = Conversations(tmp_path / "log.db")
    pieces = [KEY[at : at + 7] for at in range(0, len(KEY), 7)]
    frames = response(*message("The key is ", *pieces, ". Keep it.", f" Or {SECRETS['aws']}?"))
    odd = sse("response.unknown", note=f"{SECRETS['anthropic']} and {SECRETS['google']}")
    log.session("planted").exchange(
        [*frames[:-1], odd, frames[-1]], asking("Tell me"), headers=HEADERS
    )
    return log.path


def spelled(page: str) -> str:
    return written_data(page).replace("\\u003c", "<") + page


def test_no_secret_is_in_the_file_whole_or_in_pieces(planted: Path) -> None:
    text = spelled(exported(planted, "planted"))
    for secret in SECRETS.values():
        assert secret not in text
    pieces = [KEY[at : at + 7] for at in range(0, len(KEY), 7)]
    assert not [piece for piece in pieces if piece in text]


def test_the_texts_say_what_stood_there(planted: Path) -> None:
    data = data_of(exported(planted, "planted"))
    last = data["exchanges"]["1"]["last"]
    [item] = document_at(data, 1, last)["items"]
    assert item["text"] == (
        f"The key is <REDACTED openai-key, {len(KEY)} bytes>. Keep it. Or <REDACTED aws-key, 20 bytes>?"
    )
    half = document_at(data, 1, 8)["items"][0]["text"]
    assert half == f"The key is <REDACTED openai-key, {len(KEY)} bytes>"
    found = raws(data, 1)
    # the last events have the whole text
    assert sum(b"<REDACTED openai-key" in raw for raw in found) == 2
    assert sum(raw.startswith(b"<REDACTED event, ") for raw in found) == len(range(0, len(KEY), 7))
    assert [raw for raw in found if b"<REDACTED google-key" in raw]
    notes = " ".join([data["summary"], *data["notes"]])
    assert "2 secrets taken out" in notes
    assert "1 aws-key, 1 openai-key" in notes
    assert "when it was recorded: 1 header authorization." in notes


def test_a_secret_in_bytes_that_nothing_makes_sense_of_is_said_too(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    frames = response(*message("Nothing here."))
    odd = sse("response.unknown", note=SECRETS["google"])
    log.session("odd").exchange([*frames[:-1], odd, frames[-1]], asking("Tell me"))
    data = data_of(exported(log.path, "odd"))
    assert [raw for raw in all_raws(data) if b"<REDACTED google-key" in raw]
    assert "no secret" not in data["summary"]
    assert "secrets taken out of 1 event." in data["summary"]


@pytest.mark.long
def test_settings_say_what_else_is_secret(planted: Path, tmp_path: Path) -> None:
    (tmp_path / "recorder.toml").write_text(
        '[redact]\npatterns = ["Keep it"]\nenv = ["ODD_TOKEN"]\n'
    )
    command = [*PROGRAM, "export", "planted", "--format", "html", "--db", str(planted)]
    given = {**environment(tmp_path), "ODD_TOKEN": "The key is"}
    done = subprocess.run(command, cwd=tmp_path, env=given, check=True, capture_output=True)
    text = spelled(done.stdout.decode())
    assert "Keep it" not in text
    assert "The key is" not in text
    assert "<REDACTED pattern, 7 bytes>" in text
    assert "<REDACTED value, 10 bytes>" in text


def test_a_body_cut_anywhere_is_read_as_one(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    body = json.dumps({"id": "resp_1", "object": "response", "note": KEY, "output": []}).encode()
    pieces = [body[at : at + 50] for at in range(0, len(body), 50)]
    log.session("whole").exchange(pieces, asking("Go"), content_type="application/json")
    data = data_of(exported(log.path, "whole"))
    found = b"".join(raws(data, 1))
    assert b"<REDACTED openai-key" in found
    assert not [
        piece
        for piece in (KEY[at : at + 12].encode() for at in range(0, len(KEY), 12))
        if piece in found
    ]


# -- limits and choices


def test_one_exchange_has_its_number(demo_recording: Path) -> None:
    data = data_of(exported(demo_recording, "latest", "--exchange", 2))
    assert list(data["exchanges"]) == ["2"]
    assert [each["number"] for each in data["session"]["exchanges"]] == [2]
    assert {each["exchange"] for each in data["timeline"]["blocks"]} == {2}


def test_what_is_too_large_says_what_to_do(
    demo_recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_file, "LIMIT_BYTES", 2**16)
    ran = run(demo_recording, "export", "latest", "--format", "html")
    assert ran.code == 1
    assert ran.out == b""
    assert "name one exchange with --exchange" in ran.err


class CountedReader(LogReader):
    """A reader that counts the rows that it returns."""

    count = 0

    async def rows(self, statement: Any, **values: Any) -> Any:
        found = await super().rows(statement, **values)
        self.count += len(found)
        return found


async def test_a_file_of_twice_as_many_exchanges_takes_twice_as_many_rows(tmp_path: Path) -> None:
    counts = []
    for exchanges in (4, 8, 12):
        made = Conversations(tmp_path / f"{exchanges}.db").session("s")
        for number in range(exchanges):
            made.exchange(
                response(*message("Hello"), id=f"resp_{number}"), asking("Hi"), at_s=number
            )
        async with await CountedReader.open(made.database) as log:
            session, chosen = await select_exchanges(log, "s", None)
            await html_file.html_file(log, session, chosen, Redactor())
            counts.append(log.count)
    assert counts[2] - counts[1] == counts[1] - counts[0]


# -- what was asked


def parts_of(data: dict[str, Any], numbers: Sequence[int]) -> list[Any]:
    return [
        json.loads(put_together(data["asked_parts"][number], data["texts"])) for number in numbers
    ]


def asked_in(data: dict[str, Any], number: int) -> Any:
    """What was asked in an exchange, put together as the player does."""
    found = data["asked"][str(number)]
    read = found["read"]
    if read is None:
        return found
    [read["system"]] = parts_of(data, [read["system"]])
    read["tool_list"] = parts_of(data, read["tool_list"])
    read["message_list"] = parts_of(data, read["message_list"])
    return found


async def test_what_was_asked_is_what_the_api_answers(demo_recording: Path) -> None:
    data = data_of(exported(demo_recording, "latest"))
    async with await LogReader.open(demo_recording) as log:
        for number in data["exchanges"]:
            answer = await asked.asked(log, "latest", number, is_brief=False)
            assert asked_in(data, int(number)) == msgspec.to_builtins(answer)


def test_a_secret_is_out_of_what_was_asked_also_where_a_text_is_cut(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    text = "x" * (asked.TEXT_CHARS - 20) + f" {KEY}"
    log.session("cut").exchange(response(*message("Yes.")), asking(text))
    page = exported(log.path, "cut")
    [sent] = asked_in(data_of(page), 1)["read"]["message_list"]
    assert sent["parts"][0]["text"].endswith("x <REDACTED openai-ke")
    assert KEY[:12] not in spelled(page)


def test_requests_that_are_too_large_together_are_left_out_with_a_note(
    demo_recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_file, "REQUESTS_BYTES", 2**11)
    data = data_of(exported(demo_recording, "latest"))
    assert 0 < len(data["asked"]) < len(data["exchanges"])
    assert "Not all requests can be unfolded" in " ".join(data["notes"])
