"""`recorder probe`: what a user types, what comes out, what is recorded, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.probe.faults import JSON_HEADERS, OPENAI_ERROR, any_key
from tests.support.probe.gateway import CLEAN, Ask, Planted, gateways
from tests.support.provider.play import compact
from tests.support.provider.reply import DemoReply, DemoRequest, whole
from tests.support.server import Ran, run

KEY = "sk-of-the-gateway-0123456789"
HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202ereversed\u2066"
MISSING = "http://127.0.0.1:1"  # nothing listens there


def _has_no_choices(request: DemoRequest, ask: Ask) -> DemoReply:
    """Refuse `n` in the API's own words."""
    is_wanted = "n" in json.loads(request.body)
    return whole(compact(OPENAI_ERROR).encode(), JSON_HEADERS, 400) if is_wanted else ask(request)


def _fails_at_choices(request: DemoRequest, ask: Ask) -> DemoReply:
    is_wanted = "n" in json.loads(request.body)
    return whole(compact(OPENAI_ERROR).encode(), JSON_HEADERS, 500) if is_wanted else ask(request)


def _says_what_a_terminal_obeys(request: DemoRequest, ask: Ask) -> DemoReply:
    return whole(compact({"error": {"message": HOSTILE}}).encode(), JSON_HEADERS, 403)


def _nests(depth: int) -> Planted:
    """Answer with brackets in brackets: as a document, and as each event of a stream."""

    def planted(request: DemoRequest, ask: Ask) -> DemoReply:
        deep = b"[" * depth + b"]" * depth
        data = b'{"type":"response.created","sequence_number":1,"error":%b,"response":%b}' % (
            deep,
            deep,
        )
        stream = b"data: %b\n\ndata: %b\n\n" % (deep, data)
        is_stream = (
            b'"stream":true' in request.body.replace(b" ", b"") or "alt=sse" in request.target
        )
        if is_stream:
            return whole(stream, (("content-type", "text/event-stream"),))
        return whole(deep if b"tools" in request.body else data, JSON_HEADERS)

    return planted


PLANTED: dict[str, Planted] = {
    "deep-300": _nests(300),
    "deep-985": _nests(985),
    "deep-2000": _nests(2_000),
    "open": any_key,
    "no-choices": _has_no_choices,
    "fails": _fails_at_choices,
    "hostile": _says_what_a_terminal_obeys,
}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with gateways(PLANTED) as url:
        yield url


def _probe(db: Path, *arguments: object, key: str = KEY) -> Ran:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GATEWAY_KEY", key)
        return run(db, "probe", *arguments)


def _rows(ran: Ran) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def test_a_good_gateway_passes_and_all_of_it_is_in_the_log(base: str, tmp_path: Path) -> None:
    db, junit = tmp_path / "recorder.db", tmp_path / "probe.xml"
    options = (
        "--only",
        "text",
        "--only",
        "wrong-key",
        "--key-env",
        "GATEWAY_KEY",
        "--junit",
        junit,
        "--json",
    )
    ran = _probe(db, f"{base}/{CLEAN}", "--api", "openai-chat", *options)
    rows = _rows(ran)
    assert (ran.code, [(row["case"], row["mode"], row["state"]) for row in rows]) == (
        0,
        [
            (case, mode, "passed")
            for case in ("text", "wrong-key")
            for mode in ("streamed", "plain")
        ],
    )
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "0", "0")
    recorded = run(db, "sessions", "--json")
    assert [(each["name"], each["exchanges"]) for each in json.loads(recorded.out)] == [
        (rows[0]["session"], 4)
    ]
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert KEY not in ran.err + ran.out.decode()


def test_a_fault_is_named_with_the_client_that_it_breaks(base: str, tmp_path: Path) -> None:
    junit = tmp_path / "probe.xml"
    options = ("--only", "wrong-key", "--key-env", "GATEWAY_KEY", "--junit", junit)
    ran = _probe(tmp_path / "recorder.db", f"{base}/open", "--api", "anthropic", *options)
    text = ran.out.decode()
    assert ran.code == 4
    assert "wrong-key  A key that nobody has  1 error" in text
    assert "PR090  A wrong key was accepted." in text
    assert "why: Anyone who reaches the gateway uses its account" in text
    failure = ElementTree.parse(junit).getroot().find("testcase/failure")
    assert failure is not None
    assert "PR090" in (failure.text or "")
    ran = _probe(
        tmp_path / "recorder.db",
        f"{base}/open",
        "--api",
        "anthropic",
        *options,
        "--ignore",
        "PR090",
    )
    assert (ran.code, b"PR090" in ran.out) == (0, False)


def test_what_is_optional_may_be_refused_but_not_fail(base: str, tmp_path: Path) -> None:
    options = ("--api", "openai-chat", "--only", "choices", "--json")
    refused, failed = (
        _probe(tmp_path / "recorder.db", f"{base}/{name}", *options)
        for name in ("no-choices", "fails")
    )
    assert (refused.code, {row["state"] for row in _rows(refused)}) == (0, {"unsupported"})
    assert _rows(refused)[0]["remark"] == "status 400: Bad Request"
    assert (failed.code, {row["state"] for row in _rows(failed)}) == (4, {"faulty"})


def test_no_terminal_obeys_what_a_gateway_says(base: str, tmp_path: Path) -> None:
    options = ("--only", "text", "--junit", tmp_path / "probe.xml")
    ran = _probe(tmp_path / "recorder.db", f"{base}/hostile", "--api", "openai-chat", *options)
    text = ran.out.decode()
    assert (ran.code, "\\x1b]52;c;aGk=\\x07" in text) == (4, True)
    assert not {*HOSTILE} & {*text, *ran.err, *(tmp_path / "probe.xml").read_text()} - {
        *"]52;c;aGk=31mreversed"
    }


@pytest.mark.parametrize("api", ["openai-responses", "anthropic"])
@pytest.mark.parametrize("depth", [300, 985, 2_000])
def test_json_that_nests_too_deep_is_a_fault(
    base: str, tmp_path: Path, api: str, depth: int
) -> None:
    ran = _probe(tmp_path / "recorder.db", f"{base}/deep-{depth}", "--api", api, "--json")
    assert ran.code == 4, ran.err
    assert "Traceback" not in ran.err
    assert {row["state"] for row in _rows(ran)} <= {"faulty", "missing", "unsupported"}


def test_a_gateway_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    junit = tmp_path / "probe.xml"
    ran = _probe(
        tmp_path / "recorder.db", MISSING, "--api", "gemini", "--only", "text", "--junit", junit
    )
    assert (ran.code, ran.out) == (1, b"")
    error = ElementTree.parse(junit).getroot().find("testcase/error")
    assert error is not None
    assert "could not be reached" in error.attrib["message"]
    assert ran.err.splitlines()[-1] == (
        "Error: recorder: upstream 'gemini' (http://127.0.0.1:1) could not be reached: Connection refused."
    )


def test_a_gateway_is_reached_as_the_settings_of_the_network_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--api", "gemini", "--only", "text")
    monkeypatch.setenv("RECORDER_PROBE_UPSTREAM_PROXY", MISSING)
    ran = _probe(tmp_path / "recorder.db", "http://gateway.invalid", *options)
    assert (ran.code, "proxy 127.0.0.1:1" in ran.err) == (1, True)


def test_a_dry_run_sends_and_writes_nothing(tmp_path: Path) -> None:
    ran = _probe(
        tmp_path / "recorder.db",
        MISSING,
        "--api",
        "openai-responses",
        "--dry-run",
        "--only",
        "resume",
    )
    first, *_ = ran.out.decode().splitlines()
    assert ran.code == 0
    assert first == (
        "2 requests to http://127.0.0.1:1 for gpt-5-mini: about 37 input tokens, at most 2,048 output tokens."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (MISSING, "--api", "gemini", "--only", "choices"),
            "gemini has no case 'choices': there are text, ",
        ),
        ((MISSING, "--api", "gemini", "--key-env", "NOT_SET"), "The variable NOT_SET is not set: "),
        ((MISSING, "--api", "gemini", "--only", "wrong-key"), "The case wrong-key needs a key: "),
        (
            ("127.0.0.1:4000", "--api", "gemini"),
            "The URL of upstream 'gemini' must begin with http:// ",
        ),
        ((MISSING, "--api", "anthropic-messages"), "'anthropic-messages' is not one of "),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_sent(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ran = _probe(tmp_path / "recorder.db", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert list(tmp_path.iterdir()) == []
