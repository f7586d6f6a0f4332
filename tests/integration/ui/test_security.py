"""Who gets into the viewer, on real sockets, and what all of its answers say about themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.ui.app import BODY_LIMIT_BYTES
from tests.support.sockets import RawClient
from tests.support.viewer_api import Viewing, request, viewing

ABOUT = "/api/about"
PATHS = (ABOUT, "/api/nothing", "/", "/static/app.js", "/static/none.js", "/else")
JSON = b"Content-Type: application/json"


async def status(viewer: Viewing, data: bytes) -> int:
    return int((await viewer.ask(data)).status[:3])


@pytest.mark.parametrize(
    "path", [path for path in PATHS if path.startswith("/api/")] + ["/api/follow", "/api/"]
)
async def test_nobody_reads_the_api_without_the_token(db: Path, path: str) -> None:
    async with viewing(db) as viewer:
        token = viewer.viewer.guard.token.encode()
        wrong = [
            (),
            (b"X-Recorder-Token: x",),
            (b"X-Recorder-Token:",),
            (b"X-Recorder-Token: \xff",),
        ]
        wrong += [(viewer.token, viewer.token), (viewer.token + b"x",), (viewer.token[:-1],)]
        wrong += [
            (b"Cookie: recorder_ui_%d=" % viewer.port + token,),
            (b"Authorization: Bearer " + token,),
        ]
        for headers in wrong:
            answer = await viewer.ask(request(path, *headers))
            assert answer.status[:3] == b"401", headers
            assert b"open the URL that" in answer.body, "it says what to do"
        assert await status(viewer, request(f"{path}?token={token.decode()}")) == 401, (
            "an address is copied"
        )


async def test_no_cookie_is_set_and_the_pages_need_none(db: Path) -> None:
    """A cookie goes to every port of the machine.

    The pages are those of the package: nothing recorded is in them.
    """
    async with viewing(db) as viewer:
        for path in ("/", f"/?token={viewer.viewer.guard.token}", "/?token=x", "/static/app.js"):
            answer = await viewer.ask(request(path))
            assert (answer.status[:3], answer.header(b"set-cookie")) == (b"200", None), path
            assert b"demo" not in answer.body, "the name of the session"
        assert (await viewer.get(ABOUT)).header(b"set-cookie") is None


async def test_each_viewer_has_a_token_of_its_own(db: Path) -> None:
    async with viewing(db) as one, viewing(db) as other:
        assert await status(one, request(ABOUT, other.token)) == 401
        assert await status(other, request(ABOUT, other.token)) == 200


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
                assert await status(viewer, request(path, viewer.token, host=host)) == 403, (
                    path,
                    host,
                )
        for host in OUR_HOSTS:
            assert await status(viewer, request(ABOUT, viewer.token, host=host)) == 200, host
        assert await status(viewer, request(ABOUT, viewer.token, b"Host: localhost")) == 400, (
            "two names"
        )
        token = viewer.viewer.guard.token
        assert await status(viewer, request(f"/?token={token}", host=b"evil.example")) == 403


FOREIGN = (
    b"http://evil.example",
    b"null",
    b"https://127.0.0.1",
    b"http://127.0.0.1:1",
    b"http://localhost",
)


async def test_no_other_page_reads_the_api_by_get_or_post(db: Path) -> None:
    async with viewing(db) as viewer:
        known = viewer.token
        for site in (b"cross-site", b"same-site", b"", b"none, cross-site"):
            for path in (ABOUT, "/static/app.js", "/api/follow"):
                assert (
                    await status(viewer, request(path, known, b"Sec-Fetch-Site: " + site)) == 403
                ), (path, site)
        for origin in FOREIGN:
            assert await status(viewer, request(ABOUT, known, b"Origin: " + origin)) == 403, origin
        for more in (
            (b"Sec-Fetch-Site: none",),
            (b"Sec-Fetch-Site: same-origin", b"Origin: http://127.0.0.1"),
        ):
            assert await status(viewer, request(ABOUT, known, *more)) == 200, more
        assert (
            await status(viewer, request("/", viewer.token, b"Sec-Fetch-Site: cross-site")) == 200
        ), "a link to it"


async def test_every_answer_has_the_headers_and_none_is_for_other_origins(db: Path) -> None:
    async with viewing(db) as viewer:
        asked = [request(path, *known) for path in PATHS for known in ((), (viewer.token,))]
        asked += [
            request(ABOUT, viewer.token, host=b"evil.example"),
            request(ABOUT, viewer.token, method="OPTIONS"),
        ]
        asked += [
            request(f"/?token={viewer.viewer.guard.token}"),
            request(ABOUT, viewer.token, method="HEAD"),
        ]
        asked += [
            request(ABOUT, viewer.token, b"Origin: http://evil.example"),
            request("/api/query", viewer.token),
        ]
        asked += [request("/api/query", viewer.token, JSON, method="POST", body=b"{}")]
        asked += [
            request("/static/app.js", b"If-None-Match: " + await tag(viewer)),
            request("/api/follow", viewer.token),
        ]
        asked += [
            request("/api/sessions/none", viewer.token),
            request("/api/sessions?limit=x", viewer.token),
        ]
        for data in asked:
            async with await RawClient.connect(viewer.port) as client:
                await client.send(data)
                head = await client.read_until(b"\r\n\r\n")
            lines = head.split(b"\r\n")[1:-2]
            headers = dict(line.split(b": ", 1) for line in lines)
            assert {name: headers.get(name) for name in EXPECTED} == EXPECTED, (data, head)
            assert not [name for name in headers if name.startswith(b"access-control")]
            assert headers[b"content-type"] in TYPES


async def tag(viewer: Viewing) -> bytes:
    return (await viewer.ask(request("/static/app.js"))).header(b"etag") or b""


EXPECTED = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
TYPES = (
    b"application/json",
    b"text/event-stream",
    b"text/html; charset=utf-8",
    b"text/javascript; charset=utf-8",
)


async def test_only_the_methods_that_read_are_answered(db: Path) -> None:
    async with viewing(db) as viewer:
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert await status(viewer, request(ABOUT, viewer.token, method=method)) == 405, method
        assert (
            await status(viewer, request(ABOUT, viewer.token, JSON, method="POST", body=b"{}"))
            == 405
        )
        assert await status(viewer, request("/api/query", viewer.token)) == 405
        assert (
            await status(viewer, request("/", viewer.token, JSON, method="POST", body=b"{}")) == 404
        )
        assert await status(viewer, request(ABOUT, viewer.token, body=b"{}")) == 400, (
            "a GET with a body"
        )
        head = await viewer.get(ABOUT, method="HEAD")
        assert (head.status[:3], head.body) == (b"200", b"")


@pytest.mark.long
async def test_a_body_is_json_and_no_longer_than_its_limit(db: Path) -> None:
    async with viewing(db) as viewer:

        async def post(*headers: bytes, body: bytes = b'{"sql": "select 1"}') -> int:
            return await status(
                viewer, request("/api/query", viewer.token, *headers, method="POST", body=body)
            )

        assert await post(JSON) == 200
        assert await post(b"Content-Type: Application/JSON; charset=utf-8") == 200
        for odd in (
            (),
            (b"Content-Type: text/plain",),
            (b"Content-Type: application/x-www-form-urlencoded",),
        ):
            assert await post(*odd) == 415, odd
        assert await post(JSON, body=b"{") == 400
        assert await post(JSON, body=b"[" * 100_000) == 400
        long = request(
            "/api/query",
            viewer.token,
            JSON,
            b"Content-Length: %d" % (BODY_LIMIT_BYTES + 1),
            method="POST",
        )
        assert await status(viewer, long) == 413
        async with await RawClient.connect(viewer.port) as client:
            await client.send(
                request(
                    "/api/query", viewer.token, JSON, b"Transfer-Encoding: chunked", method="POST"
                )
            )
            await client.send(
                b"%x\r\n%b\r\n0\r\n\r\n" % (BODY_LIMIT_BYTES + 1, b" " * (BODY_LIMIT_BYTES + 1))
            )
            assert (await client.response()).status[:3] == b"413", (
                "also one whose length nobody said"
            )
