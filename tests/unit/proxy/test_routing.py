"""Which upstream, which URL, which session: from path and headers alone."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.errors import NotFoundError, UsageError
from recorder.proxy.routing import Routes, SessionPlaces, Upstream, parse_upstream
from recorder.wire.dialects import DIALECTS
from recorder.wire.providers import BY_NAME, PROVIDERS
from recorder.wire.upstreams import join

OPENAI, ANTHROPIC = "https://api.openai.com", "https://api.anthropic.com"
GEMINI = "https://generativelanguage.googleapis.com"
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
CLAUDE = [(b"anthropic-version", b"2023-06-01")]

URLS = [
    ("/v1/responses", [], OPENAI + "/v1/responses"),
    ("/responses", [], OPENAI + "/v1/responses"),
    (
        "/v1/responses/r_1?stream=true&starting_after=3",
        [],
        OPENAI + "/v1/responses/r_1?stream=true&starting_after=3",
    ),
    ("/chat/completions", [], OPENAI + "/v1/chat/completions"),
    ("/v1/embeddings", [(b"x-api-key", b"k")], OPENAI + "/v1/embeddings"),
    ("/v1/messages?beta=true", [], ANTHROPIC + "/v1/messages?beta=true"),
    ("/messages", [], ANTHROPIC + "/v1/messages"),
    ("/v1/messages/count_tokens", [], ANTHROPIC + "/v1/messages/count_tokens"),
    ("/v1/threads/t/messages", [], OPENAI + "/v1/threads/t/messages"),
    (
        "/v1beta/models/g:streamGenerateContent?alt=sse",
        [],
        GEMINI + "/v1beta/models/g:streamGenerateContent?alt=sse",
    ),
    ("/v1/models/g-2.5:generateContent", [], GEMINI + "/v1/models/g-2.5:generateContent"),
    ("/models/g:countTokens", [], GEMINI + "/v1/models/g:countTokens"),
    ("/v1beta/openai/chat/completions", [], GEMINI + "/v1beta/openai/chat/completions"),
    ("/upload/v1beta/files", [], GEMINI + "/upload/v1beta/files"),
    ("/v1/models", [], OPENAI + "/v1/models"),
    ("/v1/models/ft:gpt-4o:org::id", [], OPENAI + "/v1/models/ft:gpt-4o:org::id"),
    ("/v1/models", CLAUDE, ANTHROPIC + "/v1/models"),
    ("/v1/models", [(b"x-api-key", b"k")], ANTHROPIC + "/v1/models"),
    ("/v1/models", [(b"x-goog-api-key", b"k")], GEMINI + "/v1/models"),
    ("/v1/interactions", [], GEMINI + "/v1/interactions"),
    ("/v1/interactions/i?stream=true", [], GEMINI + "/v1/interactions/i?stream=true"),
    ("/v1/agents/a", [(b"x-goog-api-key", b"k")], GEMINI + "/v1/agents/a"),
    ("/v1/cachedContents", [], GEMINI + "/v1/cachedContents"),
    ("/v1/webhooks/w:ping", [(b"x-goog-api-key", b"k")], GEMINI + "/v1/webhooks/w:ping"),
    ("/v1/environments", CLAUDE, ANTHROPIC + "/v1/environments"),
    ("/v1/agents/sessions/s/events", [], OPENAI + "/v1/agents/sessions/s/events"),
    ("/v1/models?key=k", [], GEMINI + "/v1/models?key=k"),
    ("/v1/models?monkey=k", [], OPENAI + "/v1/models?monkey=k"),
    ("/anthropic/v1/models", [], ANTHROPIC + "/v1/models"),
    ("/gemini/v1beta/models", [], GEMINI + "/v1beta/models"),
    ("/ollama/api/chat", [], "http://localhost:11434/api/chat"),
    ("/ollama", [], "http://localhost:11434/"),
    ("/ollama?a=/b", [], "http://localhost:11434/?a=/b"),
    ("/v1/a%2Fb%20c/%E4?x=%2f&x=[1]|", [], OPENAI + "/v1/a%2Fb%20c/%E4?x=%2f&x=[1]|"),
    ("/s/run/v1/messages", [], ANTHROPIC + "/v1/messages"),
    ("/s/run/ollama/v1/messages", [], "http://localhost:11434/v1/messages"),
    ("/v2/new-thing", [], OPENAI + "/v2/new-thing"),
    ("/tunedModels/m:generateContent", [], GEMINI + "/tunedModels/m:generateContent"),
    (f"{LIVE}?key=k", [], f"{GEMINI}{LIVE}?key=k"),
]


def test_a_request_goes_where_its_path_belongs() -> None:
    routes = Routes([Upstream("ollama", "http://localhost:11434")])
    assert [routes.route(target, headers).url for target, headers, _ in URLS] == [
        url for *_, url in URLS
    ]


def test_a_version_is_there_once() -> None:
    for base, rest, url in (
        ("https://h", "/v1/x", "https://h/v1/x"),
        ("https://h", "/responses?a=1", "https://h/v1/responses?a=1"),
        ("https://h", "/api/tags", "https://h/api/tags"),
        ("https://h/v1", "/v1/x", "https://h/v1/x"),
        ("https://h/v1", "/responses", "https://h/v1/responses"),
        ("https://h/v1", "/v1beta/x", "https://h/v1/v1beta/x"),
        ("https://openrouter.ai/api/v1", "/v1/responses", "https://openrouter.ai/api/v1/responses"),
        ("https://h/backend-api/codex", "/responses", "https://h/backend-api/codex/responses"),
        ("https://h/v1", "/v12/x", "https://h/v1/v12/x"),
        ("https://h/v1", "/v1", "https://h/v1"),
    ):
        assert join(base, rest) == url


def test_the_path_names_the_session_before_the_header_does() -> None:
    header = [(b"x-recorder-session", b"from header")]
    by_path = Routes().route("/s/my%20run%2F1/v1/responses?a=1", header)
    assert (by_path.session, by_path.session_source, by_path.target) == (
        "my run/1",
        "path",
        "/v1/responses?a=1",
    )
    by_header = Routes().route("/v1/responses", header)
    assert (by_header.session, by_header.session_source) == ("from header", "header")
    assert Routes().route("/v1/responses", []).session is None


def test_a_header_of_the_user_s_own_names_the_session_after_ours() -> None:
    routes = Routes(session_places=SessionPlaces((b"x-run", b"x-job"), ("metadata.run",)))
    named = routes.route("/v1/responses", [(b"x-job", b" job 7 ")])
    assert (named.session, named.session_source, named.session_fields) == (
        "job 7",
        "header",
        ("metadata.run",),
    )
    both = [(b"x-recorder-session", b"ours"), (b"x-run", b"theirs")]
    assert routes.route("/v1/responses", both).session == "ours"
    # what another program means is not a fault of the request
    for other in (b"", b"latest", b"x" * 201):
        assert routes.route("/v1/responses", [(b"x-run", other)]).session is None


def test_tags_of_all_lines_are_one_list_with_one_limit() -> None:
    lines = [(b"x-recorder-tags", b"eu, night run,"), (b"x-recorder-tags", b"eu,dev")]
    attribution = Routes().route("/v1/responses", lines).attribution
    assert attribution is not None
    assert (attribution.owner, attribution.tags) == (None, ("eu", "night run", "dev"))
    assert Routes().route("/v1/responses", []).attribution is None
    many = [(b"x-recorder-tags", b"%d" % number) for number in range(17)]
    with pytest.raises(UsageError, match="at most 16 tags"):
        Routes().route("/v1/responses", many)


@pytest.mark.parametrize("tag", ["a\x1b[31m", "\x9b", "\u202etag", "a\tb"])
def test_a_tag_that_cannot_be_printed_is_refused(tag: str) -> None:
    with pytest.raises(UsageError, match="A tag has characters that can be printed"):
        Routes().route("/v1/responses", [(b"x-recorder-tags", tag.encode())])


def refusals(routes: Routes, *targets: str) -> list[str]:
    """What is said of targets that are refused; nothing of one that is not."""
    said = []
    for target in targets:
        try:
            said.append(f"{target} goes to {routes.route(target, CLAUDE).url}")
        except (UsageError, NotFoundError) as refused:
            said.append(f"{type(refused).__name__}: {refused}")
    return said


def test_a_session_has_a_name_of_sensible_length_and_is_not_called_latest() -> None:
    for said in refusals(Routes(), "/s//v1/responses", "/s/%20/v1", "/s/" + "x" * 201 + "/v1"):
        assert re.match("UsageError: .*session", said)
    in_header = [(b"x-recorder-session", b"latest")]
    for target, headers in (("/s/latest/v1/responses", CLAUDE), ("/v1/responses", in_header)):
        with pytest.raises(UsageError, match="called latest would never be found by that name"):
            Routes().route(target, headers)


def test_a_target_that_no_api_has_is_refused() -> None:
    outside = ("", "*", "v1/x", "//evil.test/v1", "http://evil.test/")
    for said in refusals(
        Routes(), *outside, "/v1/../x", "/v1/%2e%2E/x", "/v1/./x", "/..", "/a b", "/ä"
    ):
        assert said.startswith("UsageError: ")


def test_a_path_that_belongs_to_nobody_goes_nowhere() -> None:
    """D15: a mistyped name went to a public API, with its prompt and its key."""
    assert Routes(any_path=True).route("/api/chat", []).upstream == "openai", "in a replay it does"
    routes = Routes([Upstream("local", "http://localhost:11434")])
    lost = ("/", "/api/hello", "/favicon.ico", "/v1x/responses", "/oai")
    for said in refusals(routes, "/locl/v1/responses", "/s/run/locl/v1/responses", *lost):
        assert re.match("NotFoundError: .*/openai, /anthropic, /gemini, /chatgpt, /local", said)


def test_a_target_that_a_server_of_mcp_told_its_client_goes_to_the_one_upstream_of_the_user() -> (
    None
):
    """It went to Anthropic, whose path it is without its query."""
    told = "/base/messages/?session_id=1f"
    shop = Upstream("shop", "http://127.0.0.1:9000/base")
    assert Routes([shop]).route(told, []).url == f"http://127.0.0.1:9000{told}"
    for said in refusals(Routes([shop, Upstream("bakery", "http://127.0.0.1:9001")]), told):
        assert said.startswith(
            "NotFoundError: The path is one that a server of MCP told its client"
        )


def test_a_version_that_a_client_adds_to_a_base_url_with_it_is_said() -> None:
    routes = Routes([Upstream("mine", "http://h/v1")])
    for said in refusals(
        routes, "/v1/v1/responses", "/openai/v1/v1/x?key=k", "/mine/v1//v1", "/v1beta/v1beta/x"
    ):
        assert re.match("NotFoundError: .*twice: the base URL of the client ends in it", said)
        assert "key=k" not in said


def test_a_version_twice_is_passed_on_where_the_address_is_the_clients_own() -> None:
    own = Routes([Upstream("openai", "http://h/")])
    assert own.route("/openai/v1/v1/x", []).url == "http://h/v1/v1/x"
    assert Routes(any_path=True).route("/v1/v1/responses", []).upstream == "openai"
    assert Routes().route("/v1/v10/responses", []).url == OPENAI + "/v1/v10/responses"


def test_a_base_url_with_a_slash_at_its_end_is_said() -> None:
    for said in refusals(Routes(), "//v1/responses", "/s/a//v1/responses"):
        assert "The base URL of the client ends in a slash" in said


@given(
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40),
    st.sampled_from(["", "/", "/s/x", "/openai", "/v1"]),
)
def test_no_path_reaches_an_address_that_is_not_in_the_table(text: str, prefix: str) -> None:
    try:
        url = Routes().route(prefix + text, []).url
    except (UsageError, NotFoundError):
        return
    assert f"https://{urlsplit(url).netloc}" in (OPENAI, ANTHROPIC, GEMINI)


def test_the_target_of_the_url_is_what_follows_its_address() -> None:
    for base in ("https://h:443", "http://h:80/a//b", "https://H/v1", "http://[::1]:1"):
        route = Routes([parse_upstream(f"x={base}")]).route("/x/v2/a%2f?b=//c", [])
        assert (
            route.url
            == urlsplit(route.url).scheme + "://" + urlsplit(route.url).netloc + route.url_target
        )
        assert route.url_target.endswith("/v2/a%2f?b=//c")


def test_an_upstream_of_the_user_stands_in_place_of_a_default() -> None:
    routes = Routes([parse_upstream("openai=http://127.0.0.1:8080/base/v1/")])
    assert routes.route("/v1/responses", []).url == "http://127.0.0.1:8080/base/v1/responses"
    assert [upstream.name for upstream in routes.upstreams] == [
        "openai",
        "anthropic",
        "gemini",
        "chatgpt",
    ]


def test_a_socket_stands_in_place_of_a_host() -> None:
    routes = Routes([parse_upstream("local=http+unix://%2Frun%2Fllm.sock/v1/")])
    route = routes.route("/local/v1/responses?x=1", [])
    assert route.url == "http+unix://%2Frun%2Fllm.sock/v1/responses?x=1"
    assert route.url_target == "/v1/responses?x=1"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "mine",
            "azure",
            "=https://h",
            "Open=https://h",
            "s=https://h",
            "_recorder=https://h",
            "v1=https://h",
        ),
        *(
            "models=https://h",
            "a=h",
            "a=ftp://h",
            "a=https://",
            "a=https://u:p@h",
            "a=https://h?x=1",
            "a=https://h#x",
        ),
        *(
            "a=http+unix://",
            "a=http+unix:///run/x",
            "a=http+unix://run%2Fx/v1",
            "a=http+unix://u@%2Frun%2Fx",
        ),
        "a=http+unix:",
        *(f"a=http+unix://%2F{'x' * 107}", "a=https+unix://%2Frun%2Fx", "a=http+unix://%2Fa%00"),
        *(
            "a=https://h:99999",
            "a=https://h:0",
            "a=https://h/ä",
            "a=https://h/a b",
            "a=https://h/../x",
        ),
    ],
)
def test_an_upstream_that_cannot_be_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"\.$"):
        parse_upstream(text)


CHAT, MESSAGES = "/chat/completions", "/v1/messages"  # what SDKs put after their base URL
AT_COMPANIES = [
    ("openrouter", "OPENAI_BASE_URL", CHAT, "https://openrouter.ai/api/v1/chat/completions"),
    ("openrouter", "ANTHROPIC_BASE_URL", MESSAGES, "https://openrouter.ai/api/v1/messages"),
    ("xai", "OPENAI_BASE_URL", CHAT, "https://api.x.ai/v1/chat/completions"),
    ("mistral", "OPENAI_BASE_URL", CHAT, "https://api.mistral.ai/v1/chat/completions"),
    ("deepseek", "OPENAI_BASE_URL", CHAT, "https://api.deepseek.com/v1/chat/completions"),
    ("deepseek", "ANTHROPIC_BASE_URL", MESSAGES, "https://api.deepseek.com/anthropic/v1/messages"),
    ("groq", "OPENAI_BASE_URL", CHAT, "https://api.groq.com/openai/v1/chat/completions"),
    (
        "groq",
        "GROQ_BASE_URL",
        f"/openai/v1{CHAT}",
        "https://api.groq.com/openai/v1/chat/completions",
    ),
    ("together", "TOGETHER_BASE_URL", CHAT, "https://api.together.ai/v1/chat/completions"),
    (
        "fireworks",
        "OPENAI_BASE_URL",
        CHAT,
        "https://api.fireworks.ai/inference/v1/chat/completions",
    ),
    ("fireworks", "ANTHROPIC_BASE_URL", MESSAGES, "https://api.fireworks.ai/inference/v1/messages"),
    ("cerebras", "CEREBRAS_BASE_URL", f"/v1{CHAT}", "https://api.cerebras.ai/v1/chat/completions"),
    ("ollama", "OPENAI_BASE_URL", CHAT, "http://localhost:11434/v1/chat/completions"),
    ("ollama", "OLLAMA_HOST", "/api/chat", "http://localhost:11434/api/chat"),
    ("ollama", "ANTHROPIC_BASE_URL", MESSAGES, "http://localhost:11434/v1/messages"),
    ("vllm", "OPENAI_BASE_URL", CHAT, "http://localhost:8000/v1/chat/completions"),
    ("lmstudio", "OPENAI_BASE_URL", CHAT, "http://localhost:1234/v1/chat/completions"),
    ("perplexity", "OPENAI_BASE_URL", CHAT, "https://api.perplexity.ai/chat/completions"),
    ("cohere", "OPENAI_BASE_URL", CHAT, "https://api.cohere.ai/compatibility/v1/chat/completions"),
]


@pytest.mark.parametrize(("name", "variable", "path", "url"), AT_COMPANIES)
def test_a_client_of_a_company_reaches_it_by_its_variable(
    name: str, variable: str, path: str, url: str
) -> None:
    address = BY_NAME[name].environment[variable].format(url="")
    assert Routes([parse_upstream(name)]).route(address + path, []).url == url


def test_a_company_speaks_formats_that_are_known() -> None:
    assert {format for company in PROVIDERS for format in company.formats} <= {
        dialect.name for dialect in DIALECTS
    }


def test_only_what_is_asked_for_is_added_to_the_usual_upstreams() -> None:
    assert [name for name, _ in Routes().upstreams] == ["openai", "anthropic", "gemini", "chatgpt"]
    assert (
        Routes([parse_upstream("github-copilot")]).upstreams[-1].base
        == "https://api.githubcopilot.com/"
    )
