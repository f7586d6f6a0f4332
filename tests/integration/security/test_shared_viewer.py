"""A viewer that several people use at once: each has a token of their own, and reads as their own
login.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recorder.commands.serving.tokens import NamedToken, digest_of, write_tokens
from recorder.store.engine import OWN_READER_ROLE, READER_ROLE
from tests.integration.security.test_own_rows import PAGES, QUERIES, named, without
from tests.support.event_loop import on_uvloop
from tests.support.foreign_rows import OF_ERRORS, OF_TABLES, OF_WORDS, Team, a_team
from tests.support.postgres import Server
from tests.support.server import PROGRAM, run, started
from tests.support.sockets import RawClient
from tests.support.superuser import asked, login
from tests.support.viewer_api import BY_TLS, Viewing, request, shared

REVOKED_S = 5.0
ANN, BOB = "rights_ann", "rights_bob"  # owners of tokens, and the logins of the same names


@pytest.fixture(scope="module")
def team(postgres_server: Server, postgres_template: str) -> Iterator[Team]:
    with a_team(postgres_server, postgres_template) as made:
        login(made.url, BOB, OWN_READER_ROLE)
        yield made


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    give(tmp_path / "tokens.json", ANN, BOB)
    return tmp_path / "tokens.json"


def give(tokens: Path, *owners: str) -> None:
    """Give each owner a token, which is their name again and again."""
    write_tokens(
        tokens, [NamedToken(owner, digest_of(token(owner).encode()), owner) for owner in owners]
    )


def token(owner: str) -> str:
    return owner * 4


ESCAPES = (
    "SELECT set_config('role', 'recorder_reader', false), name FROM sessions",
    "SELECT set_config('session_authorization', 'rights_bob', false), name FROM sessions",
    "SELECT set_config('row_security', 'off', false), name FROM sessions",
    "SELECT query FROM pg_stat_activity WHERE usename = 'rights_bob'",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rights_bob'",
    *("SET ROLE recorder_reader", "RESET ROLE", "SELECT 1; RESET ROLE; SELECT name FROM sessions"),
    "SET SESSION AUTHORIZATION rights_bob",
)
STATEMENTS = (*QUERIES[3:], *OF_TABLES[::4], *OF_WORDS, *OF_ERRORS[3:6], *ESCAPES)
TRIES = (*PAGES, *STATEMENTS)


def test_there_are_at_least_sixty_tries() -> None:
    assert len(set(TRIES)) >= 60


@on_uvloop
async def test_nobody_gets_a_row_of_another_who_looks_at_the_same(team: Team, tokens: Path) -> None:
    """Bob looks at each page first, so what is kept of it would be his."""
    async with shared(team.url, tokens) as viewer:
        ann, bob = viewer.of(token(ANN)), viewer.of(token(BOB))
        seen_by_bob = ""
        for page in PAGES:
            seen_by_bob += (await bob.get(f"/api/{named(page, team)}")).body.decode()
            words = named(page, team).replace("?", "/").replace("=", "/").split("/")
            body = (await ann.get(f"/api/{named(page, team)}")).body.decode()
            assert (page, team.foreign_in(without(words, body))) == (page, [])
        assert team.foreign_in(seen_by_bob), "he sees them"
        asking = [ann.post("/api/query", {"sql": sql}) for sql in STATEMENTS]
        for sql, told in zip(STATEMENTS, await asyncio.gather(*asking), strict=True):
            answer = msgspec.json.decode(told.body)
            answer.pop("command", None)  # what was typed
            assert (sql, team.foreign_in(str(answer))) == (sql, [])


@on_uvloop
async def test_each_is_answered_as_the_login_of_the_same_name(team: Team, tokens: Path) -> None:
    sql = {"sql": "SELECT session_user AS login, count(*) AS n FROM exchanges"}
    async with shared(team.url, tokens) as viewer:
        answers = [await viewer.of(token(owner)).post("/api/query", sql) for owner in (ANN, BOB)]
        rows = [msgspec.json.decode(answer.body)["rows"] for answer in answers]
        assert rows == [[[ANN, len(team.hers)]], [[BOB, len(team.his) - 1]]]
        about = await viewer.of(token(ANN)).json("/api/home?days=3650")
        assert "postgres@" not in str(about)


async def test_no_page_and_no_answer_without_tls_and_a_token(team: Team, tokens: Path) -> None:
    shown = b"X-Recorder-Token: " + token(ANN).encode()
    host = b"recorder.example"
    cases = {
        (shown,): b"403",
        (shown, b"X-Forwarded-Proto: http"): b"403",
        (shown, BY_TLS, BY_TLS): b"403",
        (BY_TLS,): b"401",
        (BY_TLS, shown, shown): b"401",
        (BY_TLS, shown + b"x"): b"401",
        (BY_TLS, shown, b"Origin: https://evil.example"): b"403",
        (BY_TLS, shown, b"Origin: http://recorder.example"): b"403",
        (BY_TLS, shown, b"Sec-Fetch-Site: cross-site"): b"403",
        (BY_TLS, shown, b"Origin: https://recorder.example"): b"200",
    }
    async with shared(team.url, tokens) as viewer:
        for headers, status in cases.items():
            answer = await viewer.ask(request("/api/about", *headers, host=host))
            assert (headers, answer.status[:3]) == (headers, status)
        own = b"X-Recorder-Token: " + viewer.viewer.guard.token.encode()
        assert (await viewer.ask(request("/api/about", BY_TLS, own))).status[:3] == b"401"
        assert (await viewer.ask(request("/", host=host))).status[:3] == b"403"
        assert (await viewer.ask(request("/", BY_TLS, host=host))).status[:3] == b"200"


@on_uvloop
async def test_what_follows_ends_when_its_token_is_revoked(team: Team, tokens: Path) -> None:
    async with shared(team.url, tokens) as viewer:
        following = [await follow(viewer.of(token(owner))) for owner in (ANN, BOB)]
        began_s = time.monotonic()
        give(tokens, BOB)
        assert not await _more(following[0])
        assert time.monotonic() - began_s < REVOKED_S
        assert following[1].is_silent(), "of another token"
        assert (await viewer.of(token(ANN)).get("/api/about")).status[:3] == b"401"
        for client in following:
            client.socket.close()


async def follow(viewer: Viewing) -> RawClient:
    client = await RawClient.connect(viewer.port)
    await client.send(request("/api/follow", viewer.token))
    await client.read_until(b"retry:")
    await client.read_until(b"\r\n")
    return client


async def _more(client: RawClient) -> bytes:
    try:
        return await client.read()
    except ConnectionResetError:
        return b""


@on_uvloop
async def test_the_command_serves_it_and_says_no_token(team: Team, tokens: Path) -> None:
    url = team.url.set(username=None).render_as_string(hide_password=False)
    words = ("--port", "0", "--db", url, "--tokens", str(tokens))
    with started(
        tokens, tokens.parent, "ui", *words, program=PROGRAM, listening=LISTENING
    ) as viewer:
        async with await RawClient.connect(viewer.port) as client:
            shown = b"X-Recorder-Token: " + token(ANN).encode()
            await client.send(request("/api/sessions", shown, BY_TLS))
            answer = await client.response()
        viewer.stop()
    listed = msgspec.json.decode(answer.body)["sessions"]
    assert sorted(session["name"] for session in listed) == ["shared", "weather"]
    assert "token" not in viewer.said


LISTENING = re.compile(r"http://127\.0\.0\.1:(?P<port>\d+)/$", re.MULTILINE)
MADE = {
    "rights_all": f"CREATE ROLE rights_all LOGIN IN ROLE {OWN_READER_ROLE}, {READER_ROLE}",
    # it sees its own rows, until it says SET ROLE
    "rights_may": f"CREATE ROLE rights_more NOINHERIT IN ROLE {READER_ROLE}; "
    f"CREATE ROLE rights_may LOGIN IN ROLE {OWN_READER_ROLE}, rights_more",
    "rights_by": f"CREATE ROLE rights_by LOGIN BYPASSRLS IN ROLE {OWN_READER_ROLE}",
    "rights_root": "CREATE ROLE rights_root LOGIN SUPERUSER",
}


@pytest.mark.parametrize("owner", MADE)
async def test_a_login_that_may_see_more_than_its_own_rows_is_refused(
    team: Team, tokens: Path, owner: str
) -> None:
    made = MADE[owner]
    asked(team.url, f"DO $$ BEGIN {made}; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    give(tokens, owner)
    async with shared(team.url, tokens) as viewer:
        answer = await viewer.of(token(owner)).get("/api/sessions")
    assert answer.status[:3] == b"503"
    assert f"The login {owner} may see more than the rows of its own".encode() in answer.body


@pytest.mark.parametrize("owner", ["rights_unknown", ANN + "x" * 60])
async def test_an_owner_without_a_login_is_refused(team: Team, tokens: Path, owner: str) -> None:
    """A server cuts a name at 63 bytes: of another owner it could be the login."""
    login(team.url, (ANN + "x" * 60)[:63], OWN_READER_ROLE)
    give(tokens, owner)
    async with shared(team.url, tokens) as viewer:
        answer = await viewer.of(token(owner)).get("/api/sessions")
    assert answer.status[:3] == b"503"


async def test_there_is_a_limit_of_people_and_who_leaves_makes_room(
    team: Team, tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.ui.owners.LOGS", 1)
    async with shared(team.url, tokens) as viewer:
        client = await follow(viewer.of(token(ANN)))
        assert (await viewer.of(token(BOB)).get("/api/about")).status[:3] == b"503"
        assert (await viewer.of(token(ANN)).get("/api/about")).status[:3] == b"200"
        client.socket.close()
        while (await viewer.of(token(BOB)).get("/api/about")).status[:3] == b"503":
            pass  # until the server has seen that she left


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "give --tokens, with which each person sees their own rows"),
        (("--tokens",), "A file is for one user, whoever has a token: record into PostgreSQL"),
        (("latest", "--tokens", ""), "SESSION is for one user: leave it out with --tokens."),
    ],
)
def test_where_nobody_is_kept_apart_it_does_not_start(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    ran = run(tmp_path / "log.db", "ui", "--port", "0", *options)
    assert (ran.code, said in ran.err) == (2, True), ran.err
