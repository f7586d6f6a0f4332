"""Which upstream is asked where a client names the host itself."""

from __future__ import annotations

import pytest

from recorder.errors import NotFoundError
from recorder.proxy.routing import HostRoutes, Upstream


def test_the_host_chooses_the_upstream_and_the_path_stays_as_it_is() -> None:
    routes = HostRoutes([Upstream("mine", "https://Gateway.example:8443/api/v1")])
    route = routes.route("/other/v1/responses?a=1", [(b"host", b"gateway.example:8443")])
    assert (route.upstream, route.url) == (
        "mine",
        "https://gateway.example:8443/other/v1/responses?a=1",
    )
    assert routes.route("/v1/messages", [(b"host", b"api.anthropic.com")]).upstream == "anthropic"
    groq = routes.route("/openai/v1/chat/completions", [(b"host", b"api.groq.com")])
    assert (groq.upstream, groq.url) == ("groq", "https://api.groq.com/openai/v1/chat/completions")
    other = routes.route("/openai/v1/x", [(b"host", b"api.anthropic.com")])
    assert other.url == "https://api.anthropic.com/openai/v1/x"


def test_of_several_upstreams_at_one_host_the_path_chooses() -> None:
    base = "http://gateway.example"
    routes = HostRoutes([Upstream(name, base) for name in ("openai", "anthropic", "mine")])
    paths = {
        "/v1/responses": "openai",
        "/v1/messages": "anthropic",
        "/v1beta/models/m:generateContent": "mine",
    }
    for path, name in paths.items():
        route = routes.route(path, [(b"host", b"gateway.example")])
        assert (route.upstream, route.url) == (name, base + path)


def test_the_host_of_a_provider_leads_to_where_the_user_has_put_it() -> None:
    routes = HostRoutes([Upstream("openai", "http://gateway.example/api/v1")])
    route = routes.route("/v1/responses", [(b"host", b"api.openai.com")])
    assert (route.upstream, route.url) == ("openai", "http://gateway.example/api/v1/responses")


def test_a_host_of_nobody_is_refused() -> None:
    with pytest.raises(NotFoundError, match=r"No upstream is at example\.org: name it as NAME=URL"):
        HostRoutes().route("/v1/responses", [(b"host", b"example.org")])
