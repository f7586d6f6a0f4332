"""What a user names a collector with: its URL, and the headers for it."""

from __future__ import annotations

import pytest

from recorder.errors import UsageError
from recorder.exports.otlp.collector import endpoint_of, headers_of, headers_of_environment

SECRET = "s3cr3t-of-nobody"

ENDPOINTS = {  # where spans are sent, and what it is called
    "http://127.0.0.1:4318": ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318"),
    "http://127.0.0.1:4318/": ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318"),
    "https://a.example/otlp": ("https://a.example/otlp/v1/traces", "https://a.example/otlp"),
    "https://a.example/otlp/v1/traces": (
        "https://a.example/otlp/v1/traces",
        "https://a.example/otlp",
    ),
    "https://a.example/v1/metrics/": ("https://a.example/v1/traces", "https://a.example"),
    "https://a.example?key=k#team-b": (
        "https://a.example/v1/traces?key=k",
        "https://a.example#team-b",
    ),
    "https://u:p@a.example/x": ("https://u:p@a.example/x/v1/traces", "https://a.example/x"),
    "http://[::1]:4318": ("http://[::1]:4318/v1/traces", "http://[::1]:4318"),
}


def test_a_url_is_that_of_the_collector_or_of_one_signal() -> None:
    for given, expected in ENDPOINTS.items():
        endpoint = endpoint_of(given)
        assert (str(endpoint.url("traces")), endpoint.name) == expected, given


def test_what_is_not_a_url_is_not_repeated() -> None:
    for given in ("", "a.example:4318", "ftp://a.example", "http://", SECRET, "http://a:b"):
        with pytest.raises(UsageError, match="not the URL of a collector") as refused:
            endpoint_of(given)
        assert SECRET not in str(refused.value)


def test_headers_are_names_and_values() -> None:
    assert headers_of(["Authorization=Bearer a=b", " x-team = c "]) == {
        "authorization": "Bearer a=b",
        "x-team": "c",
    }
    assert headers_of_environment("a=b%20c,d=e%2Cf, ,") == {"a": "b c", "d": "e,f"}
    for wrong in (f"=={SECRET}", SECRET, f"a b={SECRET}", f"x={SECRET}\nHost: y", f"x=ä{SECRET}"):
        with pytest.raises(UsageError) as refused:
            headers_of([wrong])
        assert SECRET not in str(refused.value)
