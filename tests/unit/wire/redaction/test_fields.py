"""Secrets whose place in a body says what they are, in every API; what a model reads is not looked
at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from recorder.wire.dialects import DIALECTS
from recorder.wire.redaction.bodies import BY_SHAPE, PLACEHOLDER, redactor_from
from tests.support.secret_shapes import READ_BY_A_MODEL, REQUESTS
from tests.support.tables import table

CANARY = re.compile(r"CANARY-[a-z-]+-\d{4}")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@table("name", REQUESTS)
def test_no_credential_among_the_parameters_is_left(name: str) -> None:
    body = _json(REQUESTS[name])
    planted = CANARY.findall(body.decode())
    redacted, counts = BY_SHAPE.redact(body)
    assert planted
    assert CANARY.findall(redacted.decode()) == []
    assert (
        sum(counts.values()) == len(PLACEHOLDER.findall(redacted)) >= len(set(planted))
        or "basic" in name
    )
    assert BY_SHAPE.redact(redacted) == (redacted, {})
    assert _names(json.loads(redacted)) == _names(json.loads(body))


def _names(value: Any) -> Any:
    """The structure of JSON."""
    if isinstance(value, Mapping):
        return {name: _names(each) for name, each in value.items()}
    return [_names(each) for each in value] if isinstance(value, list) else type(value)


@table("name", REQUESTS)
@table(
    "wrapped", ["{}", '{{"response":{}}}', '{{"body":{}}}\n{{"body":{}}}', "data: {}\n\n", "[{}]"]
)
def test_it_is_found_in_what_wraps_a_request_and_in_what_repeats_it(
    name: str, wrapped: str
) -> None:
    for body in (json.dumps(REQUESTS[name]), json.dumps(REQUESTS[name], indent=1)):
        assert (
            CANARY.findall(BY_SHAPE.redact(wrapped.format(body, body).encode()).body.decode()) == []
        )


@table("name", REQUESTS)
def test_a_body_that_breaks_off_has_none_of_it(name: str) -> None:
    body = _json(REQUESTS[name])
    starts = [match.start() for match in CANARY.finditer(body.decode())]
    for start in starts:
        for size in (10, 15):
            redacted = BY_SHAPE.redact(body[: start + size], cut=True).body
            assert b"CANARY" not in redacted, redacted


@table("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be"])
def test_it_is_found_in_every_encoding_of_json(encoding: str) -> None:
    for request in REQUESTS.values():
        text = json.dumps(request)
        redacted = BY_SHAPE.redact(text.encode(encoding)).body
        assert redacted.decode(encoding) == BY_SHAPE.redact(text.encode()).body.decode()
        broken_off = BY_SHAPE.redact(text.encode(encoding)[:-1], cut=True).body
        assert "CANARY" not in broken_off.decode(encoding, "ignore")


@table("body", READ_BY_A_MODEL)
def test_what_a_model_reads_is_unchanged(body: object) -> None:
    for written in (
        _json(body),
        json.dumps(body, indent=1).encode(),
        _json({"request": body}),
        _json([body, body]),
    ):
        assert BY_SHAPE.redact(written) == (written, {})
    beside = _json([body, {"tools": [{"authorization": "CANARY-beside-0001"}]}])
    assert BY_SHAPE.redact(beside).body.startswith(_json([body])[:-1])


@table(
    ("parameters", "kept"),
    [
        (
            {
                "max_tokens": 10,
                "stop_token": "<|end|>",
                "prompt_cache_key": "a",
                "token_type": "bearer",
            },
            None,
        ),
        (
            {
                "tools": [
                    {"name": "get_token", "description": "the token", "parameters": {"token": "x"}}
                ]
            },
            None,
        ),
        (
            {
                "headers": {"Accept": "a/b", "user-agent": "x/1"},
                "url": "https://h/a/b?model=m&stream=true",
            },
            None,
        ),
        ({"auth": {"type": "bearer", "token": "x1"}}, {"auth": {"type": "bearer"}}),
        ({"basic_auth": {"username": "u", "pass": "x1"}}, {"basic_auth": {"username": "u"}}),
        ({"headers": [["Accept", "a/b"], ["X-Key", "x1"]]}, {"headers": [["Accept", "a/b"]]}),
        ({"headers": [{"name": "X-Key", "value": "x1"}]}, None),
        (
            {
                "authorization": "",
                "token": None,
                "secret": False,
                "password": "REDACTED (12 bytes)",
            },
            None,
        ),
    ],
)
def test_of_parameters_only_the_secret_is_taken(
    parameters: dict[str, Any], kept: dict[str, Any] | None
) -> None:
    redacted = BY_SHAPE.redact(_json(parameters))
    if kept is None and b"x1" not in _json(parameters):
        assert redacted == (_json(parameters), {})
        return
    assert b'"x1"' not in redacted.body
    assert sum(redacted.counts.values()) == 1
    for name, value in (kept or {}).items():
        assert json.dumps(value)[1:-1] in redacted.body.decode()
        assert name in json.loads(redacted.body)


@pytest.mark.parametrize(
    ("body", "redacted"),
    [
        (
            "grant_type=client_credentials&client_id=a&client_secret=CANARY-form-0001&scope=x",
            "grant_type=client_credentials&client_id=a&client_secret=<REDACTED credential, 16 bytes>&scope=x",
        ),
        (
            '--b\r\nContent-Disposition: form-data; name="api_key"\r\n\r\nCANARY-part-0001\r\n'
            '--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na token\r\n--b--\r\n',
            '--b\r\nContent-Disposition: form-data; name="api_key"\r\n\r\n<REDACTED credential, 16 bytes>\r\n'
            '--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na token\r\n--b--\r\n',
        ),
        (
            '{"server_url":"https:\\/\\/me:CANARY-user-0001@h\\/x?a=CANARY-query-0002\\u0026model=m#CANARY-end-0003"}',
            '{"server_url":"https:\\/\\/<REDACTED userinfo, 19 bytes>@h\\/x?a=<REDACTED parameter, 17 bytes>'
            '\\u0026model=m#<REDACTED parameter, 15 bytes>"}',
        ),
    ],
)
def test_the_rest_of_a_body_is_byte_for_byte_what_it_was(body: str, redacted: str) -> None:
    assert BY_SHAPE.redact(body.encode()).body.decode() == redacted


def test_fields_of_the_settings_are_taken_out_wherever_their_paths_lead() -> None:
    redactor = redactor_from(
        [{"fields": ["metadata.email", "messages.*.name", "pins", "address.*"]}], {}
    )
    body = {
        "metadata": {"email": "CANARY-a-0001", "more": "x"},
        "messages": [{"name": "CANARY-b-0002", "content": "x"}, {"content": {"name": "x"}}],
        "pins": [1234, {"pin": "CANARY-c-0003"}, True],
        "address": {"street": "CANARY-d-0004", "number": 17},
        "email": "x",
    }
    redacted, counts = redactor.redact(_json(body))
    said = json.loads(redacted)
    assert counts == {"field": 6}
    assert "CANARY" not in redacted.decode()
    assert said["metadata"] == {"email": "<REDACTED field, 13 bytes>", "more": "x"}
    assert said["messages"][1] == {"content": {"name": "x"}}
    assert said["pins"][0] == "<REDACTED field, 4 bytes>"
    assert said["address"]["number"] == "<REDACTED field, 2 bytes>"
    assert redactor.redact(redacted) == (redacted, {})
    assert (
        redactor.redact(b"address.street=CANARY-e-0005&x=1").body
        == b"address.street=CANARY-e-0005&x=1"
    )
    assert (
        redactor.redact(b"metadata.email=CANARY-e-0005&x=1").body
        == b"metadata.email=<REDACTED field, 13 bytes>&x=1"
    )


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'a\.\.b' is not a path"):
        redactor_from([{"fields": ["a..b"]}], {})


def test_every_place_that_a_dialect_declares_is_in_this_test() -> None:
    """A credential that no request above has would not be tested; a place of the model's, neither."""
    places = [dialect.places for dialect in DIALECTS]
    in_requests, in_messages = (
        _json(list(REQUESTS.values())).decode(),
        _json(READ_BY_A_MODEL).decode(),
    )
    for path in (path for each in places for path in each.credentials):
        assert all(f'"{name}"' in in_requests for name in path.split(".") if name != "*"), path
    for path in (path for each in places for path in each.of_model):
        assert f'"{path.split(".")[-1]}"' in in_messages, path
