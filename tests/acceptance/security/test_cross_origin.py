"""Web pages of an allowed origin: they get leave to ask, and read what comes; what is recorded is
the upstream's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.errors import UsageError
from recorder.journal.format import Mark
from recorder.proxy.admission import parse_origin
from tests.support.browser import IN_A_BROWSER, launched, opened
from tests.support.logbook import entries
from tests.support.provider.server import start
from tests.support.proxy import get, proxied
from tests.support.server import run, serving
from tests.support.sockets import RawResponse, ScriptedUpstream, answer

PAGE = b"http://localhost:5173"
FROM_PAGE = (b"Origin: " + PAGE, b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: cors")
LEAVE = (
    b"Access-Control-Request-Method: POST",
    b"Access-Control-Request-Headers: authorization,x-stainless-lang",
)


def cross(response: RawResponse) -> dict[bytes, bytes]:
    """The headers of CORS."""
    return {name: value for name, value in response.headers if name.startswith(b"access-control-")}


async def test_a_preflight_is_answered_and_neither_forwarded_nor_recorded(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        proxied(tmp_path, upstream.base, origins=[PAGE]) as proxy,
    ):
        found = await proxy.ask(get("/v1/responses", *FROM_PAGE, *LEAVE, method="OPTIONS"))
        assert (found.status, found.header(b"vary")) == (b"200 OK", b"Origin")
        assert cross(found) == {
            b"access-control-allow-origin": PAGE,
            b"access-control-expose-headers": b"*",
            b"access-control-allow-methods": b"DELETE, GET, HEAD, PATCH, POST, PUT",
            b"access-control-allow-headers": b"authorization,x-stainless-lang",
            b"access-control-max-age": b"600",
        }
        assert (upstream.connections, proxy.tapes()) == (0, [])


async def test_a_page_of_the_internet_gets_leave_for_a_private_network(tmp_path: Path) -> None:
    private = b"Access-Control-Request-Private-Network: true"
    async with proxied(tmp_path, "http://127.0.0.1:1", origins=[PAGE]) as proxy:
        found = await proxy.ask(get("/v1/responses", *FROM_PAGE, *LEAVE, private, method="OPTIONS"))
    assert found.header(b"access-control-allow-private-network") == b"true"


async def test_a_response_can_be_read_by_the_page_and_is_recorded_as_the_upstream_sent_it(
    tmp_path: Path,
) -> None:
    script = answer(b"{}", b"Vary: Accept-Encoding", b"X-Request-Id: r1")
    async with (
        ScriptedUpstream(script) as upstream,
        proxied(tmp_path, upstream.base, origins=[PAGE]) as proxy,
    ):
        found = await proxy.ask(get("/v1/responses", *FROM_PAGE, method="POST", body=b"{}"))
        (tape,) = proxy.tapes()
    assert cross(found) == {
        b"access-control-allow-origin": PAGE,
        b"access-control-expose-headers": b"*",
    }
    assert [value for name, value in found.headers if name == b"vary"] == [
        b"Accept-Encoding",
        b"Origin",
    ]
    assert [name for name, _ in tape.json[Mark.RESPONSE]["headers"]] == [
        "Content-Length",
        "Vary",
        "X-Request-Id",
    ]


async def test_what_the_upstream_says_of_origins_stays(tmp_path: Path) -> None:
    script = answer(b"{}", b"Access-Control-Allow-Origin: *")
    async with (
        ScriptedUpstream(script) as upstream,
        proxied(tmp_path, upstream.base, origins=[PAGE]) as proxy,
    ):
        found = await proxy.ask(get("/v1/responses", *FROM_PAGE))
    assert cross(found) == {b"access-control-allow-origin": b"*"}


async def test_our_own_errors_can_be_read_by_the_page(tmp_path: Path) -> None:
    async with proxied(tmp_path, "http://127.0.0.1:1", origins=[PAGE]) as proxy:
        for target, status in (("/v1/responses", b"502"), ("/mistyped", b"404")):
            found = await proxy.ask(get(target, *FROM_PAGE))
            assert (found.status[:3], found.header(b"access-control-allow-origin")) == (
                status,
                PAGE,
            )


@pytest.mark.parametrize(
    "lines",
    [
        (b"Origin: http://localhost:5174",),
        (b"Origin: https://localhost:5173",),
        (b"Origin: http://LOCALHOST:5173",),
        (b"Origin: null",),
        (b"Sec-Fetch-Site: cross-site",),  # an image of a page has no Origin
    ],
)
async def test_other_origins_are_refused_as_before(
    tmp_path: Path, lines: tuple[bytes, ...]
) -> None:
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        proxied(tmp_path, upstream.base, origins=[PAGE]) as proxy,
    ):
        for request in (get("/v1/x", *lines), get("/v1/x", *lines, *LEAVE, method="OPTIONS")):
            found = await proxy.ask(request)
            assert (found.status[:3], cross(found)) == (b"403", {})
        assert upstream.connections == 0


async def test_a_name_of_another_site_is_refused_whatever_the_origin(tmp_path: Path) -> None:
    async with proxied(tmp_path, "http://127.0.0.1:1", origins=[PAGE]) as proxy:
        for method in ("GET", "OPTIONS"):
            request = get("/v1/x", *FROM_PAGE, *LEAVE, method=method).replace(
                b"127.0.0.1:8787", b"evil.test"
            )
            assert (await proxy.ask(request)).status[:3] == b"403"


async def test_a_client_that_is_no_browser_sees_no_header_of_ours(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        proxied(tmp_path, upstream.base, origins=[PAGE]) as proxy,
    ):
        found = await proxy.ask(get("/v1/x"))
        assert (cross(found), found.header(b"vary")) == ({}, None)
        assert (await proxy.ask(get("/v1/x", method="OPTIONS"))).status[:3] == b"405"


@pytest.mark.parametrize(
    "text",
    ["http://localhost:5173", "https://app.example", "chrome-extension://abc", "http://[::1]:3"],
)
def test_an_origin_is_what_a_browser_sends(text: str) -> None:
    assert parse_origin(text) == text.encode()
    assert parse_origin(text.upper()) == text.encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*", "would let pages of anybody in"),
        ("null", "would let pages of anybody in"),
        (
            "http://localhost:5173/",
            "is not an origin: write scheme://host:port without a path or a slash",
        ),
        ("localhost:5173", "is not an origin"),
        ("http://a@b", "is not an origin"),
        ("http://*.example", "is not an origin"),
        ("http://müller.example", "is not an origin"),
        ("https://app.example:443", "has the default port"),
        ("HTTP://localhost:80", "has the default port"),
    ],
)
def test_what_is_no_origin_is_said(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("*", r"\*")):
        parse_origin(text)


def test_the_option_says_what_is_wrong(tmp_path: Path) -> None:
    for verb in ("serve", "mock"):
        ran = run(tmp_path / "recorder.db", verb, "--allow-origin", "*")
        assert (ran.code, "'*' would let pages of anybody in" in ran.err) == (2, True)


# As a page that calls an API does: with a key, a header of an SDK, and the stream read piece by
# piece.
ASK = """
async (url) => {
  const response = await fetch(url + "/v1/responses", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: "Bearer canary-key", "X-Stainless-Lang": "js" },
    body: JSON.stringify({ model: "gpt-demo", input: "hello", stream: true }),
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  return [response.headers.get("content-type"), text];
}
"""


class TestInABrowser:
    """Chromium itself decides what a page may do."""

    pytestmark = IN_A_BROWSER

    async def test_a_page_streams_through_the_recorder_only_if_its_origin_is_allowed(
        self, tmp_path: Path
    ) -> None:
        db, page = tmp_path / "recorder.db", answer(b"<!doctype html>", b"Content-Type: text/html")
        async with (
            await start(pace=0) as demo,
            ScriptedUpstream(page) as mine,
            ScriptedUpstream(page) as other,
        ):
            options = ("--upstream", f"openai={demo.base_url}", "--allow-origin", mine.base)
            with serving(db, *options) as serve:
                async with launched() as browser, opened(browser, mine.base) as tab:
                    await tab.page.goto(mine.base)
                    type_, text = await tab.page.evaluate(ASK, serve.base)
                    await tab.page.goto(other.base)
                    tab.expect("CORS policy|403|Failed to load")
                    with pytest.raises(Exception, match="Failed to fetch"):
                        await tab.page.evaluate(ASK, serve.base)
        assert type_.startswith("text/event-stream")
        assert "response.completed" in text
        (entry,) = entries(db)
        assert entry.body.decode() == text
        assert not any(
            b"access-control" in event.raw for event in entry.events if event.kind == "response"
        )
