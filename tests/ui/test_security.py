"""Who gets into the viewer, on real sockets, and what all of its answers say about themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.ui.security import BODY_LIMIT_BYTES, HEADERS
from tests.empty_logs import empty
from tests.sockets import RawClient
from tests.viewed import Viewing, fill, request, viewing

ABOUT = "/api/about"
PATHS = (ABOUT, "/api/nothing", "/", "/static/app.js", "/static/none.js", "/else")
JSON = b"Content-Type: application/json"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    fill(empty(tmp_path / "log.db"))
    return tmp_path / "log.db"


async def status(viewer: Viewing, data: bytes) -> int:
    return int((await viewer.ask(data)).status[:3])


async def cookie(viewer: Viewing) -> bytes:
    """What a browser sends after the URL that was printed."""
    answer = await viewer.ask(request(f"/?token={viewer.viewer.guard.token}"))
    assert answer.status[:3] == b"303"
    return b"Cookie: " + (answer.header(b"set-cookie") or b"").partition(b";")[0]


async def test_a_token_becomes_a_cookie_of_this_port_that_no_script_and_no_other_site_can_use(db: Path) -> None:
    async with viewing(db) as viewer:
        answer = await viewer.ask(request(f"/?token={viewer.viewer.guard.token}"))
        assert (answer.status[:3], answer.header(b"location")) == (b"303", b"/")
        name, _, attributes = (answer.header(b"set-cookie") or b"").partition(b"=")
        value, *rest = attributes.split(b"; ")
        assert name == b"recorder_ui_%d" % viewer.port
        assert rest == [b"HttpOnly", b"SameSite=Strict", b"Path=/"]
        assert viewer.viewer.guard.token.encode() not in value, "who reads a cookie learns no token"
        for path in ("/", "/static/app.js", ABOUT):
            assert await status(viewer, request(path, b"Cookie: " + name + b"=" + value)) == 200
            assert await status(viewer, request(path, b"Cookie: a=b; " + name + b"=" + value + b"; c=d")) == 200


@pytest.mark.parametrize("path", PATHS)
async def test_nobody_gets_in_without_the_cookie_or_the_token(db: Path, path: str) -> None:
    async with viewing(db) as viewer:
        name = b"Cookie: recorder_ui_%d=" % viewer.port
        wrong = [(), (name,), (name + b"x",), (b"Cookie: \xff",), (b"X-Recorder-Token: x",), (b"X-Recorder-Token:",)]
        wrong += [(viewer.token, viewer.token), (name + viewer.viewer.guard.token.encode(),)]
        for headers in wrong:
            answer = await viewer.ask(request(path, *headers))
            assert answer.status[:3] == b"401", headers
            assert b"open the URL that" in answer.body, "it says what to do"
            assert answer.header(b"set-cookie") is None


async def test_a_wrong_token_in_the_url_gets_no_cookie(db: Path) -> None:
    async with viewing(db) as viewer:
        token = viewer.viewer.guard.token
        for query in ("token=", "token=x", f"token={token}x", f"token={token}&token={token}", f"Token={token}", "%FF"):
            answer = await viewer.ask(request(f"/?{query}"))
            assert (answer.status[:3], answer.header(b"set-cookie")) == (b"401", None), query
        assert await status(viewer, request(f"{ABOUT}?token={token}")) == 401, "the page alone takes it"


OUR_HOSTS = (b"127.0.0.1:1", b"localhost", b"[::1]:8788", b"a.localhost", b"LOCALHOST:80")
OTHER_HOSTS = (
    b"evil.example",
    b"127.0.0.1.evil.example",
    b"localhost.evil.example",
    b"0.0.0.0",
    b"169.254.169.254",
    b"",
)


async def test_a_name_that_others_can_point_here_is_refused_even_with_the_token(db: Path) -> None:
    async with viewing(db) as viewer:
        for path in PATHS:
            for host in OTHER_HOSTS:
                assert await status(viewer, request(path, viewer.token, host=host)) == 403, (path, host)
        for host in OUR_HOSTS:
            assert await status(viewer, request(ABOUT, viewer.token, host=host)) == 200, host
        assert await status(viewer, request(ABOUT, viewer.token, b"Host: localhost")) == 400, "two names"
        token = viewer.viewer.guard.token
        assert await status(viewer, request(f"/?token={token}", host=b"evil.example")) == 403


FOREIGN = (b"http://evil.example", b"null", b"https://127.0.0.1", b"http://127.0.0.1:1", b"http://localhost")


async def test_no_other_page_reads_the_api_by_get_or_post(db: Path) -> None:
    async with viewing(db) as viewer:
        for known in (viewer.token, await cookie(viewer)):
            for site in (b"cross-site", b"same-site", b"", b"none, cross-site"):
                for path in (ABOUT, "/static/app.js", "/api/follow"):
                    assert await status(viewer, request(path, known, b"Sec-Fetch-Site: " + site)) == 403, (path, site)
            for origin in FOREIGN:
                assert await status(viewer, request(ABOUT, known, b"Origin: " + origin)) == 403, origin
            for more in ((b"Sec-Fetch-Site: none",), (b"Sec-Fetch-Site: same-origin", b"Origin: http://127.0.0.1")):
                assert await status(viewer, request(ABOUT, known, *more)) == 200, more
        assert await status(viewer, request("/", viewer.token, b"Sec-Fetch-Site: cross-site")) == 200, "a link to it"


async def test_every_answer_has_the_headers_and_none_is_for_other_origins(db: Path) -> None:
    async with viewing(db) as viewer:
        asked = [request(path, *known) for path in PATHS for known in ((), (viewer.token,))]
        asked += [request(ABOUT, viewer.token, host=b"evil.example"), request(ABOUT, viewer.token, method="OPTIONS")]
        asked += [request(f"/?token={viewer.viewer.guard.token}"), request(ABOUT, viewer.token, method="HEAD")]
        asked += [request(ABOUT, viewer.token, b"Origin: http://evil.example"), request("/api/query", viewer.token)]
        asked += [request("/api/query", viewer.token, JSON, method="POST", body=b"{}")]
        asked += [request("/api/sessions/none", viewer.token), request("/api/sessions?limit=x", viewer.token)]
        for data in asked:
            answer = await viewer.ask(data)
            assert set(HEADERS) <= set(answer.headers), (data, answer)
            assert not [name for name, _ in answer.headers if name.startswith(b"access-control")]
            assert answer.header(b"content-type") in (b"application/json", *TYPES) or answer.status[:3] == b"303"
        policy = dict(HEADERS)[b"content-security-policy"]
        assert policy.startswith(b"default-src 'none'; ")
        assert b"unsafe" not in policy


TYPES = (b"text/html; charset=utf-8", b"text/javascript; charset=utf-8")


async def test_two_viewers_in_one_browser_do_not_take_each_others_cookies(db: Path) -> None:
    async with viewing(db) as one, viewing(db) as other:
        mine, its = await cookie(one), await cookie(other)
        both = b"Cookie: " + mine.removeprefix(b"Cookie: ") + b"; " + its.removeprefix(b"Cookie: ")
        for viewer, own, foreign in ((one, mine, its), (other, its, mine)):
            assert await status(viewer, request(ABOUT, both)) == 200
            assert await status(viewer, request(ABOUT, own)) == 200
            assert await status(viewer, request(ABOUT, foreign)) == 401


async def test_only_the_methods_that_read_are_answered(db: Path) -> None:
    async with viewing(db) as viewer:
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert await status(viewer, request(ABOUT, viewer.token, method=method)) == 405, method
        assert await status(viewer, request(ABOUT, viewer.token, JSON, method="POST", body=b"{}")) == 405
        assert await status(viewer, request("/api/query", viewer.token)) == 405
        assert await status(viewer, request("/", viewer.token, JSON, method="POST", body=b"{}")) == 404
        assert await status(viewer, request(ABOUT, viewer.token, body=b"{}")) == 400, "a GET with a body"
        head = await viewer.get(ABOUT, method="HEAD")
        assert (head.status[:3], head.body) == (b"200", b"")


async def test_a_body_is_json_and_no_longer_than_its_limit(db: Path) -> None:
    async with viewing(db) as viewer:

        async def post(*headers: bytes, body: bytes = b'{"sql": "select 1"}') -> int:
            return await status(viewer, request("/api/query", viewer.token, *headers, method="POST", body=body))

        assert await post(JSON) == 200
        assert await post(b"Content-Type: Application/JSON; charset=utf-8") == 200
        for odd in ((), (b"Content-Type: text/plain",), (b"Content-Type: application/x-www-form-urlencoded",)):
            assert await post(*odd) == 415, odd
        assert await post(JSON, body=b"{") == 400
        assert await post(JSON, body=b"[" * 100_000) == 400
        long = request("/api/query", viewer.token, JSON, b"Content-Length: %d" % (BODY_LIMIT_BYTES + 1), method="POST")
        assert await status(viewer, long) == 413
        async with await RawClient.connect(viewer.port) as client:
            await client.send(request("/api/query", viewer.token, JSON, b"Transfer-Encoding: chunked", method="POST"))
            await client.send(b"%x\r\n%b\r\n" % (BODY_LIMIT_BYTES + 1, b" " * (BODY_LIMIT_BYTES + 1)))
            assert (await client.response()).status[:3] == b"413", "also one whose length nobody said"
