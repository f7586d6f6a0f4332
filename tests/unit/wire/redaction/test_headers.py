"""No secret gets past, in any form; what replay, grouping and debugging need does."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from urllib.parse import quote, unquote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.model.events import ExchangeEnd, RequestHead, ResponseHead
from recorder.wire.redaction.headers import (
    VALUE_LIMIT,
    keeps,
    redact_headers,
    redact_record,
    redact_target,
    redact_text,
    redact_url,
)
from tests.support import secret_shapes
from tests.support.tables import table

CANARY = "canary-5f1d0c"

# -- headers


def test_the_id_of_a_session_that_is_as_good_as_a_key_is_a_digest_which_groups() -> None:
    raw = [(b"Mcp-Session-Id", id) for id in (b"canary-1", b"canary-2", b"canary-1")]
    values = [value for _, value in redact_headers(raw)]
    assert "canary" not in str(values)
    assert values[0] == values[2] != values[1]
    assert redact_headers([(b"mcp-session-id", values[0].encode())]) == [
        ("mcp-session-id", values[0])
    ]


KEPT = re.findall(
    r"\S+",
    """
Content-Type content-length Content-Encoding Transfer-Encoding Accept accept-encoding Accept-Language User-Agent
Cache-Control Date Server x-request-id request-id openai-processing-ms openai-version openai-model anthropic-version
anthropic-beta retry-after x-should-retry X-Stainless-Retry-Count x-stainless-package-version x-stainless-read-timeout
x-ratelimit-limit-requests x-ratelimit-limit-tokens x-ratelimit-remaining-tokens x-ratelimit-reset-tokens
x-ratelimit-remaining-project-tokens x-ratelimit-limit-tokens-minute anthropic-ratelimit-requests-remaining
anthropic-ratelimit-input-tokens-remaining anthropic-ratelimit-output-tokens-reset traceparent tracestate
x-goog-api-client via session-id session_id conversation_id thread-id originator x-openai-subagent
x-codex-parent-thread-id X-Claude-Code-Session-Id x-claude-code-agent-id x-claude-code-parent-agent-id x-app
x-interaction-id X-Client-Session-Id X-KILOCODE-TASKID X-Mux-Workspace-Id X-Coder-Chat-Id X-Recorder-Session
x-envoy-upstream-service-time server-timing connection host cf-ray x-litellm-response-cost
""",
)

SECRET = re.findall(
    r"\S+",
    """
authorization Proxy-Authorization x-api-key api-key X-Goog-Api-Key xi-api-key Cookie set-cookie OpenAI-Organization
openai-project chatgpt-account-id x-amz-security-token x-goog-iam-authorization-token x-stainless-api-key
x-stainless-token x-ratelimit-token x-ratelimit-secret anthropic-ratelimit-cookie x-auth-tokens cf-access-client-secret
x-password x-db-passwd x-credentials x-codex-turn-state x-codex-installation-id baggage referer x-forwarded-for
accept-token openai-secret x-anything
""",
)


@table("name", KEPT)
def test_a_harmless_header_is_kept(name: str) -> None:
    assert redact_headers([(name.encode(), b"value")]) == [(name, "value")]


@table("name", SECRET)
@table("case", [str, str.upper, str.title])
def test_a_secret_header_keeps_its_name_and_length_only(name: str, case: type[str]) -> None:
    assert redact_headers([(case(name).encode(), b"s" * 51)]) == [
        (case(name), "REDACTED (51 bytes)")
    ]


def test_order_repeats_and_case_of_headers_are_kept() -> None:
    raw = [
        (b"Via", b"a"),
        (b"Set-Cookie", b"x=1"),
        (b"via", b"b"),
        (b"set-cookie", b""),
        (b"Server", b"caf\xe9"),
    ]
    cookies = ("Set-Cookie", "REDACTED (3 bytes)"), ("set-cookie", "REDACTED (0 bytes)")
    assert redact_headers(raw) == [
        ("Via", "a"),
        cookies[0],
        ("via", "b"),
        cookies[1],
        ("Server", "café"),
    ]


def test_of_the_turn_metadata_only_ids_are_kept() -> None:
    kept = {
        "turn_id": "turn-1",
        "thread_id": "thread-1",
        "window_id": "w:0",
        "request_kind": "turn",
    }
    metadata = {
        **kept,
        "parent_turn_id": f"https://user:{CANARY}@github.com",
        "session_id": 7,
        "workspaces": {
            "/home/x": {
                "associated_remote_urls": {"origin": f"https://x:{CANARY}@github.com/x/y.git"}
            }
        },
        "sandbox": CANARY,
    }
    (name, value), *_ = redact_headers([(b"x-codex-turn-metadata", json.dumps(metadata).encode())])
    assert name == "x-codex-turn-metadata"
    assert json.loads(value) == kept


@table("value", [b"", b"[]", b"{", b"7", b"\xff", b"[" * 100_000])
def test_turn_metadata_that_is_none_is_redacted(value: bytes) -> None:
    assert (
        redact_headers([(b"x-codex-turn-metadata", value)])[0][1]
        == f"REDACTED ({len(value)} bytes)"
    )


def test_a_redirect_keeps_where_it_goes_but_not_its_secrets() -> None:
    location = f"https://user:{CANARY}@host/path?key={CANARY}&alt=sse".encode()
    assert redact_headers([(b"Location", location)]) == [
        ("Location", "https://host/path?key=REDACTED&alt=sse")
    ]


@pytest.mark.parametrize("name", ["Via", "Location", "x-request-id", "Traceparent"])
def test_a_value_over_the_limit_is_not_kept(name: str) -> None:
    longest = b"/" + b"v" * (VALUE_LIMIT - 1)
    assert redact_headers([(name.encode(), longest)]) == [(name, longest.decode())]
    assert redact_headers([(name.encode(), longest + b"v")]) == [(name, "REDACTED (4097 bytes)")]


def test_of_long_turn_metadata_the_ids_are_kept_all_the_same() -> None:
    metadata = {"turn_id": "turn-1", "workspaces": ["/home/x/project"] * 3000}
    kept = redact_headers([(b"x-codex-turn-metadata", json.dumps(metadata).encode())])
    assert kept == [("x-codex-turn-metadata", '{"turn_id":"turn-1"}')]


# -- URLs

TARGETS = [
    ("/v1/responses", "/v1/responses"),
    ("/v1/messages?beta=true", "/v1/messages?beta=true"),
    (
        "/v1/models/m:streamGenerateContent?alt=sse&key=K",
        "/v1/models/m:streamGenerateContent?alt=sse&key=REDACTED",
    ),
    ("/x?key=K&alt=sse&KEY=K&key=K2", "/x?key=REDACTED&alt=sse&KEY=REDACTED&key=REDACTED"),
    ("/r/resp_1?stream=true&starting_after=41", "/r/resp_1?stream=true&starting_after=41"),
    (
        "/v1/realtime?model=gpt-realtime&intent=x&key=K",
        "/v1/realtime?model=gpt-realtime&intent=x&key=REDACTED",
    ),
    ("/x?api-version=2024-12-01-preview&code=K", "/x?api-version=2024-12-01-preview&code=REDACTED"),
    ("/x?after=a%20b&order=desc&pageSize=5", "/x?after=a%20b&order=desc&pageSize=5"),
    ("/x?%6bey=K&a%6ct=sse", "/x?%6bey=REDACTED&a%6ct=sse"),
    ("/x?alt=sse;key=K", "/x?alt=sse;key=REDACTED"),
    ("/x?alt=sse%26key%3DK", "/x?alt=REDACTED"),
    ("/x?alt=sse?key=K", "/x?alt=REDACTED"),
    ("/x?alt=%ff", "/x?alt=REDACTED"),
    ("/x?K", "/x?REDACTED"),
    ("/x?K==", "/x?REDACTED"),
    ("/x?=K", "/x?REDACTED"),
    ("/x?&&alt=sse&", "/x?&&alt=sse&"),
    ("/x?", "/x?"),
    ("/x#K", "/x#REDACTED"),
    ("/x%3Fkey=K", "/x%3FREDACTED"),
    ("/m:generateContent&key=K", "/m:generateContent&key=REDACTED"),
    ("/a;token=K/b", "/a;token=REDACTED/b"),
    ("//user:K@host/x", "//host/x"),
    ("/fetch/https://user:K@host/x", "/fetch/https://host/x"),
    ("http://user:K@host/x?key=K", "http://host/x?key=REDACTED"),
    ("user:K@host:443", "host:443"),
]
UNCHANGED = [
    *("*", "", "/claude@20250219", "/publishers/anthropic/models/claude@20250219:rawPredict"),
    "/r?include[]=a.b&include%5B%5D=reasoning.encrypted_content&include=c,d",
]


@table(("raw", "kept"), [*TARGETS, *((target, target) for target in UNCHANGED)])
def test_a_target_keeps_its_path_and_the_known_parameters(raw: str, kept: str) -> None:
    assert redact_target(raw) == kept


URLS = [
    ("https://api.openai.com/v1/responses", "https://api.openai.com/v1/responses"),
    ("https://host:8443/x?alt=sse&key=K", "https://host:8443/x?alt=sse&key=REDACTED"),
    ("https://user:K@host:1/x", "https://host:1/x"),
    ("https://K@host", "https://host"),
    ("https://user:p@K@host/", "https://host/"),
    ("https://user:p/K@host/x", "https://host/x"),
    ("https://user:p?K@host/x", "https://user:p?REDACTED"),
    ("https://user:p#K@host/x", "https://user:p#REDACTED"),
    ("  https://user:K@host/x", "  https://host/x"),
    ("https:/\\user:K@host/x", "https:/\\host/x"),
    ("https://[::1]:8080/x@y", "https://[::1]:8080/x@y"),
    ("https://host:80/x@y", "https://host:80/x@y"),
    ("sqlite:///data/recorder.db", "sqlite:///data/recorder.db"),
    ("postgresql://user:K@db/recorder?password=K", "postgresql://db/recorder?password=REDACTED"),
]


@table(("raw", "kept"), URLS)
def test_a_url_loses_user_password_and_unknown_parameters(raw: str, kept: str) -> None:
    assert redact_url(raw) == kept


# -- no canary survives


def forms(secret: str) -> set[str]:
    """The ways a secret may look: as it is, percent-encoded, and in base64 at each of three
    alignments.
    """
    raw = secret.encode()
    encoded = {base64.b64encode(b"x" * shift + raw).decode()[4:-4] for shift in range(3)}
    everywhere = "".join(f"%{byte:02X}" for byte in raw)
    return {secret, quote(secret, safe=""), everywhere, everywhere.lower(), *encoded}


def carriers(secret: str) -> st.SearchStrategy[str]:
    """The same secret as clients send it."""
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    return st.sampled_from(
        [secret, f"Bearer {secret}", f"Basic {basic}", f"a=b; session={secret}", *forms(secret)]
    )


SECRETS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.~", min_size=12, max_size=40).map(
    lambda each: CANARY + each
)
ANY_CASE = st.sampled_from([str.lower, str.upper, str.title])
FILLER = st.text("abcAB/:%&;=?@#[]. \\\u00e9", max_size=8)


@st.composite
def requests_with_a_secret(draw: st.DrawFn) -> tuple[str, list[tuple[bytes, bytes]], str, str]:
    secret = draw(SECRETS)
    names = draw(st.lists(st.sampled_from(SECRET + KEPT), max_size=5))
    values = [draw(carriers(secret)) if name in SECRET else draw(FILLER) for name in names]
    raw = [
        (draw(ANY_CASE)(name).encode(), value.encode())
        for name, value in zip(names, values, strict=True)
    ]
    carrier = quote(draw(carriers(secret)), safe=draw(st.sampled_from(["", "=", "/+=%", "?"])))
    parameter = draw(
        st.sampled_from(["key", "KEY", "api_key", "access_token", "%6bey", "x[]", "", "code"])
    )
    query = (
        draw(st.sampled_from(["?", "?alt=sse&", "?alt=sse;", "?&", "?stream=true&x=1&"]))
        + f"{parameter}={carrier}"
    )
    path = draw(st.sampled_from(["/v1/models/m:generateContent", "/", "/a/b@c", "/é/%zz"]))
    userinfo = (
        quote(f"{draw(st.sampled_from(['user:', '', ':', 'a@b:', 'u%40:']))}{secret}", safe=":@%")
        + "@"
    )
    host = draw(st.sampled_from(["host", "host:8443", "[::1]:80"]))
    scheme = draw(st.sampled_from(["https://", "HTTP://", "//", "", "\\\\", "https:\\\\"]))
    url = f"{scheme}{userinfo}{host}{path}{query}{draw(st.sampled_from(['', '&', '&alt=sse']))}"
    return secret, raw, path + query, url


@pytest.mark.long
@given(requests_with_a_secret())
@settings(max_examples=300)
def test_no_secret_survives_in_any_form(
    planted: tuple[str, list[tuple[bytes, bytes]], str, str],
) -> None:
    secret, raw_headers, raw_target, raw_url = planted
    headers = [f"{name}: {value}" for name, value in redact_headers(raw_headers)]
    kept = "\n".join(
        [*headers, redact_target(raw_target), redact_url(raw_url), redact_target(raw_url)]
    )
    for form in forms(secret):
        assert form.lower() not in kept.lower()


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)), max_size=5))
def test_no_header_is_refused_and_none_is_lost(raw: list[tuple[bytes, bytes]]) -> None:
    kept = redact_headers(raw)
    assert [name.encode("latin-1") for name, _ in kept] == [name for name, _ in raw]
    for (name, value), (_, raw_value) in zip(kept, raw, strict=True):
        assert value.encode("latin-1") == raw_value if keeps(name) else True


PIECES = st.lists(FILLER | st.sampled_from(["https://", "key=", "&key=", "?", "alt=sse"])).map(
    "".join
)


@given(st.text(max_size=60) | PIECES)
@settings(max_examples=200)
def test_no_url_is_refused_and_no_unknown_value_is_kept(raw: str) -> None:
    for kept in (redact_target(raw), redact_url(raw), redact_target("/" + raw)):
        assert not re.search(r"[?&;]key=(?!REDACTED)[^&;#/]", kept)


def test_of_a_long_target_only_what_is_too_long_is_lost() -> None:
    filler = "&limit=1" * (VALUE_LIMIT // 8)
    assert redact_target("/v1/messages?beta=true" + filler) == "/v1/messages?REDACTED"
    assert redact_target("/" + "a" * VALUE_LIMIT + "?alt=sse") == "/REDACTED?alt=sse"
    assert redact_url("https://host/?" + filler) == f"REDACTED ({14 + len(filler)} bytes)"


HOSTILE = re.findall(r"\S+", r"// /@ //a: //:@ /;a /?a=& : :1 a: \: [: a. ?: #: ; &= % %3F")


@pytest.mark.timed
@table("piece", HOSTILE)
def test_a_hostile_url_is_redacted_in_linear_time(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the limit, which hides what is quadratic: 100,000 characters would take 20 s."""
    monkeypatch.setattr("recorder.wire.redaction.headers.VALUE_LIMIT", 2**30)
    raw = piece * (100_000 // len(piece))
    began = time.thread_time()
    for whole in (raw, "https://" + raw, "https://" + raw + "/@", "/" + raw, "/?" + raw):
        assert redact_target(whole)
        assert redact_url(whole)
    assert time.thread_time() - began < 4


def test_what_is_redacted_already_stays_as_it_is() -> None:
    once = redact_headers([(b"Authorization", b"Bearer sk-canary")])
    assert once == [("Authorization", "REDACTED (16 bytes)")]
    assert redact_headers([(name.encode(), value.encode()) for name, value in once]) == once


# -- what has the shape of a secret, in places that are kept

SHAPED = {name: secret for name, secret in secret_shapes.SECRETS.items() if "\n" not in secret}
CODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "quoted": lambda secret: quote(secret, safe=""),
    "in codes": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
    "in codes of codes": lambda secret: quote("".join(f"%{byte:02X}" for byte in secret.encode())),
    "in part": lambda secret: secret[:5] + "".join(f"%{byte:02X}" for byte in secret[5:].encode()),
    "with a quoted dash": lambda secret: (
        secret.replace("-", "%2D").replace("_", "%5f").replace(".", "%2E")
    ),
}
PLACES = {
    "path": "/v1/files/{}/content",
    "beginning of a path": "/openai/{}",
    "response": "/v1/responses/{}?stream=true",
    "method of a model": "/v1/models/{}:generateContent",
    "URL in a path": "/openai/fetch/https://user:{}@host/{}",
    "coded URL in a path": "/openai/fetch/https%3A%2F%2F{}%40host%2Fx",
    **{
        f"parameter {name}": f"/v1/x?{name}={{}}&stream=true"
        for name in ("alt", "api-version", "order", "after")
    },
    **{
        f"parameter {name}": f"/v1/x?stream=true&{name}={{}}"
        for name in ("include[]", "before", "beta", "limit")
    },
    "list": "/v1/x?include=a,{},b",
    "name of a parameter": "/v1/x?{}=1",
    "matrix": "/v1/x;{}/y",
}


def assert_gone(secret: str, kept: str) -> None:
    undone = kept
    for _ in range(4):
        undone += unquote(undone)
    assert [piece for piece in secret_shapes.pieces(secret) if piece in undone] == []


@pytest.mark.long
@table("place", PLACES)
@table("coding", CODINGS)
def test_a_key_in_a_target_is_taken_out_wherever_it_stands(place: str, coding: str) -> None:
    for secret in SHAPED.values():
        raw = PLACES[place].format(*[CODINGS[coding](secret)] * 2)
        for kept in (redact_target(raw), redact_url(f"https://host{raw}")):
            assert_gone(secret, kept)
            assert "REDACTED" in kept or "//host" in kept
        assert redact_target(redact_target(raw)) == redact_target(raw)


@table("name", KEPT)
def test_a_key_in_the_value_of_a_harmless_header_is_taken_out(name: str) -> None:
    for secret in SHAPED.values():
        [(kept, value)] = redact_headers([(name.encode(), f"before {secret} after".encode())])
        assert_gone(secret, value)
        assert (kept, value.split(" ")[::2]) == (name, ["before", "after"])
        assert redact_headers([(name.encode(), value.encode())]) == [(name, value)]


@table("name", SHAPED)
def test_a_key_in_the_name_of_a_header_is_taken_out_though_http_makes_its_letters_small(
    name: str,
) -> None:
    for secret in (SHAPED[name], SHAPED[name].lower()):
        [(kept, value)] = redact_headers([(f"x {secret}".encode(), b"1")])
        assert re.fullmatch(r"x (REDACTED-[a-z-]+-[0-9a-f]{6}\S*)+", kept)
        assert secret[-12:] not in kept or "." in secret[-12:], kept
        assert value == "REDACTED (1 bytes)"


def test_a_key_in_the_name_of_a_header_or_in_turn_metadata_is_taken_out() -> None:
    for secret in SHAPED.values():
        metadata = json.dumps(
            {"turn_id": secret, "session_id": f"a:{secret}", "thread_id": "thread-1"}
        )
        kept = redact_headers(
            [(secret.encode(), b"1"), (b"x-codex-turn-metadata", metadata.encode())]
        )
        assert_gone(secret, f"{kept}")
        assert json.loads(kept[1][1])["thread_id"] == "thread-1"


def test_a_private_key_on_one_line_is_taken_out() -> None:
    for name in ("rsa key", "pkcs8 key", "ssh key"):
        secret = secret_shapes.SECRETS[name]
        coded = [
            quote(secret, safe=""),
            quote(secret),
            quote(secret.replace("\n", "")).replace("%20", "+"),
        ]
        for each in coded:
            for place in ("/v1/x/{}", "/v1/x?after={}"):
                assert_gone(secret, redact_target(place.format(each)))
        assert_gone(secret, redact_text(secret))


def test_a_record_has_no_key_in_any_of_its_texts() -> None:
    for secret in secret_shapes.SECRETS.values():
        said = f"it is {secret} now"
        head = RequestHead(said, said, 1, said, said, said, [(said, said)], said, said)
        for each in (
            head,
            ResponseHead(200, said, [(said, said)], said),
            ExchangeEnd("upstream_reset", said),
        ):
            kept = json.loads(redact_record(each))
            assert_gone(secret, json.dumps(kept))
            assert json.dumps(kept).count("REDACTED-") == json.dumps(
                json.loads(msgspec.json.encode(each))
            ).count("it is")


def test_the_same_key_has_the_same_name_and_another_key_another() -> None:
    names = {secret: redact_text(secret) for secret in SHAPED.values()}
    assert len(set(names.values())) == len(names)
    for secret, name in names.items():
        assert re.fullmatch(r"REDACTED-[a-z-]+-[0-9a-f]{6}", name)
        assert (redact_target(f"/v1/x/{secret}"), redact_text(name)) == (f"/v1/x/{name}", name)
        assert redact_target(f"/v1/x/{quote(secret).replace('-', '%2D')}") == f"/v1/x/{name}"


ORDINARY = [
    "/v1/responses/resp_68a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071829?stream=true&starting_after=41",
    "/v1/threads/thread_abc123/runs/run_abc123/steps?after=step_68a1b2c3d4e5f60718293a4b5c6d7e8f",
    "/v1/files/file-abc123XYZ0123456789abcdef/content",
    "/v1/messages/batches/msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d/results",
    "/v1/conversations/conv_689667905b048191b4740501625afd940c7533ace33a2dab/items?include=reasoning.encrypted_content",
    "/v1beta/models/gemini-2.5-flash-preview-native-audio-dialog:streamGenerateContent?alt=sse",
    "/v1/models/ft:gpt-4.1-mini-2025-04-14:my-org:custom-suffix:7p4lURel",
    "/openai/deployments/task-force-of-twenty-people-1/chat/completions?api-version=2024-12-01-preview",
    "/v1/x/0b5e3a8c-52a8-4a43-9d5b-6e2f1c7d8e9f/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/v1/x/disk-0123456789ABCDEFGHIJ/%E2%82%AC/a%20b",
]


@table("ordinary", ORDINARY)
def test_ordinary_ids_stay(ordinary: str) -> None:
    assert redact_target(ordinary) == ordinary
    assert redact_text(ordinary) == ordinary


def test_ordinary_headers_stay() -> None:
    said = [
        (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        (b"etag", b'W/"9f86d081884c7d659a2feaa0c55ad015"'),
        (b"cf-ray", b"97a1b2c3d4e5f607-FRA"),
        (b"x-request-id", b"req_011CSHoEeqs5C35K2UUqR7Fy"),
        (b"anthropic-beta", b"claude-code-20250219,fine-grained-tool-streaming-2025-05-14"),
        (
            b"user-agent",
            b"codex_exec/0.169.0 (Ubuntu 24.4.0; x86_64) xterm-256color (codex_exec; 0.169.0)",
        ),
        (b"x-client-request-id", "caf\xe9 100% of it".encode("latin-1")),
    ]
    assert redact_headers(said) == [
        (name.decode(), value.decode("latin-1")) for name, value in said
    ]
