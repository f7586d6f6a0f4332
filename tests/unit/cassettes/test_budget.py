"""`recorder.cassettes.calls`: the limits of files of other programs, with files whose expansion is
large.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.cassettes import Cassette, calls
from recorder.cassettes.ai_sdk import Generations
from recorder.cassettes.calls import FILE_LIMIT, BodyBudget, check_values
from recorder.cassettes.cassetter import Cassetter
from recorder.cassettes.claude_tap import ClaudeTap
from recorder.cassettes.har.reader import Har
from recorder.cassettes.litellm import LiteLlm
from recorder.cassettes.plain import PlainStream
from recorder.cassettes.vcr.reader import Vcr
from recorder.cassettes.vcr.yaml_values import YAML_LIMIT
from recorder.errors import RecorderError
from tests.support.corpus import DATA
from tests.support.tables import table
from tests.unit.cassettes.test_ai_sdk import STEPS
from tests.unit.cassettes.test_cassetter import CLOSING, FRAME, OPENING, RESPONSE, SOCKET, TOML
from tests.unit.cassettes.test_cassettes import imported, recordings
from tests.unit.cassettes.test_litellm import LEAST
from tests.unit.cassettes.test_vcr import WRITTEN

FILES = DATA / "cassettes"
Reader = Callable[[BinaryIO], Cassette]
READERS: dict[str, Reader] = {
    "ai-sdk": Generations,
    "cassetter": Cassetter,
    "claude-tap": ClaudeTap,
    "har": Har,
    "litellm": LiteLlm,
    "vcr": Vcr,
}
_LIMITS = {"cassetter": YAML_LIMIT, "vcr": YAML_LIMIT}


@pytest.mark.long
@table("name", READERS)
def test_a_file_has_a_limit(name: str, tmp_path: Path) -> None:
    limit = _LIMITS.get(name, FILE_LIMIT)
    with (tmp_path / name).open("w+b") as file:
        file.truncate(limit + 1)
        with pytest.raises(RecorderError, match=f"it is over {limit >> 20} MiB"):
            READERS[name](file)


BLOB = "x" * 2**20
REFERENCE = {"__claude_tap_blob_ref__": {"version": 1, "hash": "a"}}


def bundle(messages: int, records: int) -> bytes:
    """A bundle of claude-tap of about a MiB: each message of each record is the same text of a MiB."""
    call = {
        "timestamp": "2026-01-01T00:00:00Z",
        "request": {
            "method": "POST",
            "path": "/v1/messages",
            "body": {"messages": [REFERENCE] * messages},
        },
        "response": {"status": 200, "body": {}},
    }
    packed = {"__claude_tap_compact_record__": {"version": 1}, "record": call}
    document = {
        "__claude_tap_compact_trace__": {"version": 1},
        "records": [packed] * records,
        "blobs": {"a": {"payload": BLOB}},
    }
    return json.dumps(document).encode()


def zipped(size_bytes: int) -> dict[str, Any]:
    body = base64.b64encode(gzip.compress(b"data: 1\n\n" * (size_bytes // 9))).decode()
    request: dict[str, Any] = {"method": "POST", "uri": "https://api.openai.com/v1/responses"}
    headers = {"content-encoding": ["gzip"], "content-type": ["text/event-stream"]}
    status = {"code": 200, "message": "OK"}
    return {
        "request": request,
        "response": {"status": status, "headers": headers, "body": {"base64_string": body}},
    }


LARGE = {
    "one record": (ClaudeTap, bundle(300, 1)),
    "many records": (ClaudeTap, bundle(3, 100)),
}


@pytest.mark.parametrize(("reader", "data"), LARGE.values(), ids=LARGE)
def test_what_a_reference_repeats_is_counted_before_it_is_written_out(
    reader: Reader, data: bytes
) -> None:
    assert len(data) < 2**21
    with pytest.raises(RecorderError, match="its bodies are over 256 MiB together: split it"):
        reader(io.BytesIO(data))


CALLS = {
    "generations.json": Generations,
    "cassetter.yaml": Cassetter,
    "cassetter-websocket.yaml": Cassetter,
    "claude-tap.jsonl": ClaudeTap,
    "claude-tap-bundle.json": ClaudeTap,
    "mitmproxy.har": Har,
    "litellm.jsonl": LiteLlm,
}


@pytest.mark.parametrize("name", CALLS)
def test_bodies_are_counted_in_every_format(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FILES / name).read_bytes()
    assert CALLS[name](io.BytesIO(data))
    monkeypatch.setattr(calls, "BODIES_LIMIT", 100)
    with pytest.raises(RecorderError, match="its bodies are over 0 MiB together"):
        CALLS[name](io.BytesIO(data))


@pytest.mark.long
def test_bodies_are_counted_without_their_coding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BODIES_LIMIT", 3 * 2**20)
    for count, fits in ((2, True), (4, False)):
        cassette = {"version": 1, "interactions": [zipped(2**20)] * count}
        with (
            nullcontext()
            if fits
            else pytest.raises(RecorderError, match="its bodies are over 3 MiB together")
        ):
            Vcr(io.BytesIO(json.dumps(cassette).encode()))


DENSE = b"[" + b"{}," * 10_000 + b"{}]"


def plain(file: BinaryIO) -> Cassette:
    return PlainStream(file, "json", None, None)


@table("reader", [Generations, ClaudeTap, Har, LiteLlm, plain, Vcr])
def test_values_have_a_limit(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "VALUES_LIMIT", 10_000)
    data = b'{"__claude_tap_compact_trace__":' + DENSE + b"}" if reader is not plain else DENSE
    with pytest.raises(RecorderError, match="over 10,000 values in one document"):
        reader(io.BytesIO(data))


def test_what_is_in_a_text_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "VALUES_LIMIT", 10)
    texts = b'["' + b'{[,\\\\\\"' * 100 + b'"]'
    assert check_values(texts) is texts


def test_a_budget_is_used_up() -> None:
    left = BodyBudget(10)
    left.take(10)
    with pytest.raises(RecorderError):
        left.take(1)


SMALL: dict[str, tuple[Reader, bytes]] = {
    "generations.json": (Generations, json.dumps({"runs": [], "steps": STEPS[:1]}).encode()),
    "cassetter over HTTP": (Cassetter, OPENING + RESPONSE + CLOSING),
    "cassetter over WebSocket": (Cassetter, SOCKET + FRAME + CLOSING),
    "cassetter in TOML": (Cassetter, TOML),
    "claude-tap": (ClaudeTap, (FILES / "claude-tap-no-events.json").read_bytes()),
    "LiteLLM": (
        LiteLlm,
        json.dumps(LEAST | {"error_information": {"error_code": "429"}, "response": {}}).encode(),
    ),
    "VCR": (Vcr, WRITTEN),
}


@table(("reader", "written"), SMALL.values())
def test_the_small_files_of_these_tests_are_read(reader: Reader, written: bytes) -> None:
    assert recordings(imported(reader(io.BytesIO(written))))


@pytest.mark.parametrize("name", SMALL)
@given(data=st.data())
def test_no_change_of_a_file_raises_anything_but_a_refusal(name: str, data: st.DataObject) -> None:
    reader, written = SMALL[name]
    at = data.draw(st.integers(0, len(written)))
    end = data.draw(st.integers(at, min(len(written), at + 20)))
    changed = written[:at] + data.draw(st.binary(max_size=9)) + written[end:]
    with suppress(RecorderError):
        recordings(imported(reader(io.BytesIO(changed))))
