"""Several people at one recorder: each request counts for the owner of the token that it shows."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from recorder.commands.serving.listening import Door
from recorder.commands.serving.tokens import NamedToken, read_tokens
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.attribution import Attribution
from recorder.proxy.app import Proxy
from recorder.proxy.http.server import Server
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from recorder.proxy.upstream import UpstreamTransport
from tests.support.event_loop import on_uvloop, turns
from tests.support.proxy import Proxied, get, proxied
from tests.support.server import run
from tests.support.sockets import (
    STREAM_HEAD,
    Action,
    ScriptedUpstream,
    Send,
    Stall,
    answer,
    chunked,
)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "team" / "tokens.json"


def made(tokens: Path, name: str, *options: str) -> str:
    ran = run(tokens, "token", "add", name, "--file", tokens, *options)
    assert ran.code == 0, ran.err
    return ran.text.strip()


def attributions(proxy: Proxied) -> list[Attribution]:
    """What the journal has of whom each request counts for."""
    return [
        msgspec.convert(tape.json[Mark.REQUEST]["attribution"], Attribution)
        for tape in proxy.tapes()
    ]


class Team:
    """A recorder at which each shows a token of the file."""

    def __init__(self, folder: Path, base: str, tokens: Path) -> None:
        self._journal, self._upstream = Journal(folder / "journal", "recorder"), UpstreamTransport()
        door = Door("127.0.0.1", 0, [], (), [], None, tokens, 1, None)
        routes = Routes([Upstream("openai", base), Upstream("anthropic", base)])
        self._proxy = Proxy(
            RecordingTransport(self._upstream, self._journal), routes, hosts=door.names
        )
        self._server = Server(
            door.guarded(self._proxy), "127.0.0.1", 0, on_drain=self._proxy.shutdown
        )

    async def __aenter__(self) -> Proxied:
        await self._server.start()
        return Proxied(self._server, self._proxy, self._journal.directory)

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)
        await self._upstream.aclose()
        self._journal.close()


def shown(token: str, target: str = "/v1/x", *lines: bytes) -> bytes:
    return get(target, b"X-Recorder-Token: " + token.encode(), *lines)


@on_uvloop
async def test_a_request_counts_for_the_owner_of_its_token(tmp_path: Path, tokens: Path) -> None:
    ann = made(
        tokens, "laptop", "--owner", "ann", "--team", "search", "--tag", "dev", "--tag", "eu"
    )
    ci = made(tokens, "ci")
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        Team(tmp_path, upstream.base, tokens) as proxy,
    ):
        await proxy.ask(shown(ann))
        await proxy.ask(get(f"/t/{ci}/v1/x", b"X-Recorder-Tags: eu, night run, eu"))
        assert attributions(proxy) == [
            Attribution("ann", "search", ("dev", "eu")),
            Attribution("ci", None, ("eu", "night run")),
        ]
        assert not any(b"recorder-t" in passed_on.lower() for passed_on in upstream.requests)
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert ann.encode() not in kept
        assert ci.encode() not in kept


@on_uvloop
async def test_no_header_brings_a_token_to_an_upstream(tmp_path: Path, tokens: Path) -> None:
    """An address that a client was sent from has its path; a recorder without tokens may be shown
    one, too.
    """
    ann = made(tokens, "ann")
    async with ScriptedUpstream(answer(b"")) as upstream:
        async with Team(tmp_path, upstream.base, tokens) as proxy:
            came_from = f"Referer: http://recorder.example/t/{ann}/v1/".encode()
            assert (await proxy.ask(get(f"/t/{ann}/v1/x", came_from))).status == b"200 OK"
        async with proxied(tmp_path / "open", upstream.base) as proxy:
            assert (await proxy.ask(shown(ann))).status == b"200 OK"
        assert len(upstream.requests) == 2
        assert ann.encode() not in b"".join(upstream.requests)


@on_uvloop
async def test_a_token_that_was_revoked_is_refused_with_the_next_request(
    tmp_path: Path, tokens: Path
) -> None:
    ann, bob = made(tokens, "ann"), made(tokens, "bob")
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        Team(tmp_path, upstream.base, tokens) as proxy,
    ):
        assert (await proxy.ask(shown(ann))).status == b"200 OK"
        assert run(tokens, "token", "revoke", "ann", "--file", tokens).code == 0
        assert (await proxy.ask(shown(ann))).status == b"401 Unauthorized"
        assert (await proxy.ask(shown(bob))).status == b"200 OK"
        assert (await proxy.ask(shown(made(tokens, "eve")))).status == b"200 OK", (
            "a new one needs no restart"
        )
        assert len(upstream.requests) == 3


@on_uvloop
async def test_a_stream_outlives_the_moment_in_which_the_file_is_written(
    tmp_path: Path, tokens: Path
) -> None:
    ann = made(tokens, "ann")
    script: list[Action] = [Send(STREAM_HEAD + chunked(b"data: 1\n\n")), Stall()]
    async with ScriptedUpstream(script) as upstream, Team(tmp_path, upstream.base, tokens) as proxy:
        async with await proxy.connect() as client:
            await client.send(shown(ann))
            await client.read_until(b"data: 1\n\n\r\n")
            whole = tokens.read_bytes()
            for content in (b"", whole, b""):
                tokens.write_bytes(content)
                proxy.proxy.end_revoked()
            await turns()
            assert client.is_silent()
            proxy.proxy.end_revoked()
            assert await client.rest() == b""
            assert (await proxy.ended()).outcome == "token_revoked"


@on_uvloop
async def test_a_token_may_use_only_its_upstreams(tmp_path: Path, tokens: Path) -> None:
    ann = made(tokens, "ann", "--upstream", "anthropic")
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        Team(tmp_path, upstream.base, tokens) as proxy,
    ):
        assert (await proxy.ask(shown(ann, "/anthropic/v1/messages"))).status == b"200 OK"
        for target in ("/v1/responses", "/openai/v1/messages"):
            refused = await proxy.ask(shown(ann, target))
            assert refused.status == b"403 Forbidden"
            assert b"may not use the upstream openai" in refused.body
        assert len(upstream.requests) == len(proxy.tapes()) == 1


@on_uvloop
async def test_a_file_that_is_gone_or_damaged_lets_nobody_in(tmp_path: Path, tokens: Path) -> None:
    ann = made(tokens, "ann")
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        Team(tmp_path, upstream.base, tokens) as proxy,
    ):
        whole = tokens.read_bytes()
        for content in (whole[:-5], b"", b"[]", b"\xff", None):
            tokens.unlink()
            if content is not None:
                tokens.write_bytes(content)
            assert (await proxy.ask(shown(ann))).status == b"401 Unauthorized", content
            tokens.write_bytes(whole)
            assert (await proxy.ask(shown(ann))).status == b"200 OK"


@on_uvloop
async def test_too_many_tags_are_refused_in_a_sentence(tmp_path: Path, tokens: Path) -> None:
    ann = made(tokens, "ann")
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        Team(tmp_path, upstream.base, tokens) as proxy,
    ):
        for tags in (",".join(map(str, range(17))), "x" * 65):
            refused = await proxy.ask(shown(ann, "/v1/x", f"X-Recorder-Tags: {tags}".encode()))
            assert (refused.status, b"at most 16 tags" in refused.body) == (
                b"400 Bad Request",
                True,
            )
        assert upstream.requests == []


def test_the_file_has_digests_and_is_for_its_owner_alone(tokens: Path) -> None:
    token = made(tokens, "ann", "--team", "search")
    assert token not in tokens.read_text()
    assert tokens.stat().st_mode & 0o777 == 0o600
    [kept] = read_tokens(tokens)
    assert (kept.owner, len(kept.sha256)) == ("ann", 64)
    [listed] = json.loads(run(tokens, "token", "list", "--json", "--file", tokens).out)
    assert msgspec.convert(listed, NamedToken) == kept


WRONG = {
    ("add", "ann"): (2, "There is a token 'ann' already"),
    ("add", "a\x07b"): (2, "characters that can be printed"),
    ("add", "x", "--tag", "y" * 65): (2, "at most 64 characters"),
    ("revoke", "bob"): (3, "There is no token 'bob'"),
}


def test_wrong_use_is_one_sentence_and_changes_nothing(tokens: Path) -> None:
    made(tokens, "ann")
    before = tokens.read_bytes()
    for arguments, (code, sentence) in WRONG.items():
        ran = run(tokens, "token", *arguments, "--file", tokens)
        assert (ran.code, sentence in ran.err) == (code, True), ran.err
    assert tokens.read_bytes() == before
    both = run(tokens, "serve", "--token", "--tokens")
    assert (both.code, "give one of them" in both.err) == (2, True)
