"""The address that a request is forwarded to, from the URL of its route."""

from __future__ import annotations

import httpx

from recorder.proxy.app import address

URLS = [
    *(
        "https://api.openai.com",
        "https://api.openai.com/v1",
        "http://localhost:11434",
        "https://h:443/v1",
    ),
    *("https://h:80/v1", "http://h:80", "HTTP://Host.Example:8080/v1", "http://127.0.0.1:8787"),
    *("http://[::1]:8787/v1", "https://[2001:db8::1]", "http://a_b-c.example."),
]


def test_an_address_is_that_of_httpx() -> None:
    for url in URLS:
        expected = httpx.URL(url)
        assert address(url) == (expected.scheme, expected.host, expected.port, expected.netloc, b"")


def test_the_path_of_a_socket_is_its_host() -> None:
    assert address("http+unix://%2Frun%2Fllm.sock") == (
        "http+unix",
        "/run/llm.sock",
        None,
        b"localhost",
        b"",
    )
