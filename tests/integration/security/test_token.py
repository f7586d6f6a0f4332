"""Who listens where other machines reach him: nobody gets in without the token, and nobody
downstream sees it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest

from recorder.commands import recorder
from recorder.commands.serving.listening import Door, Token
from recorder.journal.writer import Journal
from recorder.proxy.admission import ANY_HOST, Shown, shown_token
from recorder.proxy.app import Proxy
from recorder.proxy.http.server import Server
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from tests.support.event_loop import on_uvloop
from tests.support.proxy import Proxied, get
from tests.support.server import everywhere, serving
from tests.support.sockets import RawClient, ScriptedUpstream, answer

TOKEN = Token("canary-Token_0123456789")
HEADER = b"X-Recorder-Token: " + TOKEN.text.encode()
PAGE = b"https://page.test"
DOOR = Door("h", 0, [], (), [PAGE], TOKEN, None, 1, None)


@asynccontextmanager
async def behind_token(folder: Path, base: str) -> AsyncIterator[Proxied]:
    """The recorder as `proxied` has it, for those who show the token."""
    journal, upstream = Journal(folder / "journal", "recorder"), UpstreamTransport()
    transport = RecordingTransport(upstream, journal)
    proxy = Proxy(transport, Routes([Upstream("openai", base)]), hosts=DOOR.names, origins=[PAGE])
    server = Server(DOOR.guarded(proxy), "127.0.0.1", 0, on_drain=proxy.shutdown)
    await server.start()
    try:
        yield Proxied(server, proxy, journal.directory)
    finally:
        await server.stop(0)
        await upstream.aclose()
        journal.close()


def request(target: str = "/v1/x", *lines: bytes, host: bytes = b"10.0.0.5:8787") -> bytes:
    return get(target, *lines).replace(b"127.0.0.1:8787", host)


T = TOKEN.text
SHOWN = {
    "as a header": request("/s/run/v1/x?a=%2f", HEADER),
    "as a header in another case": request("/s/run/v1/x?a=%2f", HEADER.replace(b"X-R", b"x-r")),
    "in the path": request(f"/t/{T}/s/run/v1/x?a=%2f"),
    "to a name": request(f"/t/{T}/s/run/v1/x?a=%2f", host=b"box.lan"),
}
NOT_SHOWN = {
    "none": request(),
    "to localhost": request(host=b"localhost"),
    "empty": request("/v1/x", b"X-Recorder-Token:"),
    "empty in the path": request("/t//v1/x"),
    "a part": request(f"/t/{T[:-1]}/v1/x"),
    "more": request(f"/t/{T}x/v1/x"),
    "another case": request(f"/t/{T.lower()}/v1/x"),
    "escaped": request(f"/t/%63{T[1:]}/v1/x"),
    "in the query": request(f"/v1/x?token={T}"),
    "behind the session": request(f"/s/run/t/{T}/v1/x"),
    "with two slashes": request(f"//t/{T}/v1/x"),
    "as another header": request("/v1/x", b"Authorization: Bearer " + T.encode()),
    "twice": request("/v1/x", HEADER, HEADER),
    "wrong header, right path": request(f"/t/{T}/v1/x", b"X-Recorder-Token: " + b"x" * 22),
    "own page": request("/_recorder/healthz"),
}


@on_uvloop
async def test_the_token_lets_in_and_goes_no_further(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        behind_token(tmp_path, upstream.base) as proxy,
    ):
        for case, shown in SHOWN.items():
            assert (await proxy.ask(shown)).status == b"200 OK", case
        assert len(upstream.requests) == len(proxy.tapes()) == len(SHOWN)
        for passed_on in upstream.requests:
            assert passed_on.startswith(b"GET /v1/x?a=%2f HTTP/1.1\r\n")
            assert b"canary" not in passed_on.lower()
            assert b"recorder-token" not in passed_on.lower()
        for path in tmp_path.rglob("*.seg"):
            assert b"/v1/x?a=" in path.read_bytes()
            assert b"canary" not in path.read_bytes().lower()
            assert b"recorder-token" not in path.read_bytes().lower()


@on_uvloop
async def test_without_it_there_is_a_401_and_no_upstream(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        behind_token(tmp_path, upstream.base) as proxy,
    ):
        answers = {case: (await proxy.ask(asked)) for case, asked in NOT_SHOWN.items()}
        assert {
            case: each.status
            for case, each in answers.items()
            if each.status != b"401 Unauthorized"
        } == {}
        assert all(
            b"X-Recorder-Token" in each.body and b"canary" not in each.body
            for each in answers.values()
        )
        assert (upstream.connections, proxy.tapes()) == (0, [])


@on_uvloop
async def test_a_web_page_that_has_the_token_gets_403_all_the_same(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        behind_token(tmp_path, upstream.base) as proxy,
    ):
        response = await proxy.ask(request("/v1/x", HEADER, b"Origin: https://evil.test"))
        assert (response.status[:3], upstream.connections) == (b"403", 0)


@pytest.mark.long
async def test_a_recorder_lets_in_who_shows_it_and_keeps_it_nowhere(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    async with ScriptedUpstream(answer(b"{}")) as upstream:
        with serving(
            db,
            *everywhere(upstream.base),
            "--token",
            T,
            variables={"RECORDER_SERVE_ALLOW_HOST": "box.lan"},
        ) as serve:
            for asked, status in (
                *((each, b"200") for each in SHOWN.values()),
                (NOT_SHOWN["none"], b"401"),
            ):
                async with await RawClient.connect(serve.port) as client:
                    await client.send(asked)
                    assert (await client.response()).status[:3] == status
            serve.stop()
        assert f"{serve.base}/t/TOKEN\n" in serve.said
        assert len(upstream.requests) == len(SHOWN)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"/v1/x?a=" in kept
    assert b"canary" not in (kept + serve.said.encode()).lower()


def test_the_path_behind_the_token_is_as_it_was() -> None:
    for path in (b"/t/abc", b"/t/abc/", b"/t/abc/v1", b"/t/abc/t/abc"):
        assert shown_token(path, []) == Shown(b"abc", path.removeprefix(b"/t/abc") or b"/", [])


def test_a_path_that_begins_like_a_token_is_a_path_when_the_header_has_it() -> None:
    shown = shown_token(b"/t/v1/x", [(b"x-recorder-token", b"abc"), (b"a", b"b")])
    assert shown == Shown(b"abc", b"/t/v1/x", [(b"a", b"b")])


# -- what a user types


def parsed(verb: str, *arguments: str) -> click.Context:
    """The context of a command line. Raises `click.UsageError` for one that is refused."""
    with recorder.make_context("recorder", [verb]) as parent:
        command = recorder.get_command(parent, verb)
        assert command is not None
        return command.make_context(verb, list(arguments), parent=parent)


both_verbs = pytest.mark.parametrize("verb", ["serve", "mock"])

REMOTE = [
    "0.0.0.0",
    "::",
    "[::]",
    "10.0.0.5",
    "box.lan",
    "::ffff:127.0.0.1.evil",
    "169.254.1.1",
    "fe80::1",
    "",
]


@both_verbs
def test_no_other_machine_is_listened_to_without_a_token(verb: str) -> None:
    for host in REMOTE:
        with pytest.raises(
            click.BadParameter, match=r"not a loopback address.*--token or --tokens\."
        ):
            parsed(verb, "--host", host)


@both_verbs
def test_a_token_opens_every_address(verb: str) -> None:
    params = parsed(verb).params
    assert (params["host"], params.get("token")) == ("127.0.0.1", None), (
        "without one it is loopback"
    )
    for host in REMOTE[:5]:
        assert parsed(verb, "--token", T, "--host", host).params["token"] == TOKEN
        assert parsed(verb, "--host", host, "--token", T).params["host"] == host.strip("[]")


def test_a_token_need_not_stand_in_the_process_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDER_SERVE_TOKEN", T)
    with recorder.make_context("recorder", ["serve"], auto_envvar_prefix="RECORDER") as parent:
        command = recorder.get_command(parent, "serve")
        assert command is not None
        params = command.make_context("serve", ["--host", "0.0.0.0"], parent=parent).params
    assert params["token"] == TOKEN


def test_a_token_that_is_made_cannot_be_guessed() -> None:
    made = [parsed("mock", "--token").params["token"] for _ in range(100)]
    assert len({token.text for token in made}) == 100
    # 192 bits
    assert all(token.is_made and re.fullmatch(r"rec_[\w-]{32}", token.text) for token in made)


def test_a_token_that_could_be_guessed_or_not_be_typed_is_refused() -> None:
    for token in ("x", "x" * 21, "x" * 201, "x" * 21 + "/", "x" * 21 + "%", "x y" * 10, "é" * 22):
        with pytest.raises(click.BadParameter, match="22 characters or more") as refusal:
            parsed("mock", "--token", token)
        assert token not in str(refusal.value) or len(token) == 1


def test_no_name_stands_for_all_names_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("serve", "mock"):
        monkeypatch.setenv(f"RECORDER_{verb.upper()}_ALLOW_HOST", ANY_HOST)
        with pytest.raises(click.BadParameter, match="every web page"):
            parsed(verb)


def test_a_token_that_was_given_is_not_repeated() -> None:
    assert DOOR.printed_entrance(1) == "http://h:1/t/TOKEN"
    assert (
        DOOR._replace(token=Token("made", is_made=True)).printed_entrance(1) == "http://h:1/t/made"
    )
    assert DOOR._replace(token=None).printed_entrance(1) == "http://h:1"


async def test_a_page_asks_for_permission_without_a_token_and_may_read_that_it_needs_one(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        behind_token(tmp_path, upstream.base) as proxy,
    ):
        page = b"Origin: " + PAGE
        leave = get("/v1/x", page, b"Access-Control-Request-Method: POST", method="OPTIONS")
        assert (await proxy.ask(leave)).status == b"200 OK"
        for origin, readable in ((page, PAGE), (b"Origin: https://evil.test", None)):
            refused = await proxy.ask(request("/v1/x", origin))
            assert (refused.status[:3], refused.header(b"access-control-allow-origin")) == (
                b"401",
                readable,
            )
        assert (await proxy.ask(request("/v1/x", page, HEADER))).header(
            b"access-control-allow-origin"
        ) == PAGE
        assert len(upstream.requests) == 1
