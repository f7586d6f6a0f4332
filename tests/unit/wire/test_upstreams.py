from __future__ import annotations

import msgspec
import pytest

from recorder.wire.upstreams import url_at

GATEWAY = "http://gateway.test:4000/openai"


@pytest.mark.parametrize(
    ("base", "upstream", "target", "asked"),
    [
        (msgspec.UNSET, "openai", "/openai/v1/responses", "https://api.openai.com/v1/responses"),
        (GATEWAY, "openai", "/openai/v1/responses?a=1", f"{GATEWAY}/v1/responses?a=1"),
        (GATEWAY, "openai", "/v1/responses", f"{GATEWAY}/v1/responses"),
        (msgspec.UNSET, "mine", "/mine/x", None),
        ("http+unix://%2Frun%2Fmine.sock", "mine", "/mine/x", None),
    ],
)
def test_a_recorded_request_is_asked_again_where_it_was_asked(
    base: str | msgspec.UnsetType, upstream: str, target: str, asked: str | None
) -> None:
    assert url_at(base, upstream, target) == asked
