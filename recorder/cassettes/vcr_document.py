"""The document of a VCR cassette, YAML or JSON → its interactions, as they stand there.

vcrpy writes `interactions`, Ruby's VCR `http_interactions`; what else they keep beside them is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from recorder.cassettes.vcr_yaml import read_yaml
from recorder.errors import RecorderError

VERSION = 1

Headers = dict[str, str | list[str | None] | None]


class Body(msgspec.Struct, frozen=True):
    string: str | None = None
    in_base64: str | None = msgspec.field(name="base64_string", default=None)
    state: tuple[str | None, ...] = ()  # of a file that was sent


class Request(msgspec.Struct, frozen=True):
    method: str
    uri: str
    headers: Headers | None = None
    body: str | Body | None = None


class Status(msgspec.Struct, frozen=True):
    code: Annotated[int, msgspec.Meta(ge=100, le=999)]
    message: str | None = None


class Response(msgspec.Struct, frozen=True):
    status: Status
    headers: Headers | None = None
    body: str | Body | None = None


class Interaction(msgspec.Struct, frozen=True):
    request: Request
    response: Response
    recorded_at: str | None = None


class _Document(msgspec.Struct, frozen=True):
    version: int = VERSION
    interactions: tuple[Any, ...] | None = None
    of_ruby: tuple[Any, ...] | None = msgspec.field(name="http_interactions", default=None)


class _JsonDocument(msgspec.Struct, frozen=True):
    interactions: tuple[msgspec.Raw, ...]
    version: int = VERSION


def interactions(data: bytes) -> Iterator[tuple[int, Interaction]]:
    """What the document has, with their numbers. Raises `RecorderError`."""
    raw = _json_interactions(data) if data.lstrip().startswith(b"{") else _yaml_interactions(data)
    for number, each in enumerate(raw, 1):
        try:
            if isinstance(each, msgspec.Raw):
                yield number, msgspec.json.decode(each, type=Interaction)
            else:
                yield number, msgspec.convert(each, Interaction, strict=False)
        except (ValueError, RecursionError) as error:
            raise RecorderError(f"interaction {number} is none of a VCR cassette: {error}") from error


def _json_interactions(data: bytes) -> Sequence[Any]:
    try:
        document = msgspec.json.decode(data, type=_JsonDocument)
    except (ValueError, RecursionError) as error:
        raise RecorderError(f"it is no VCR cassette: {error}") from error
    _check_version(document.version)
    return document.interactions


def _yaml_interactions(data: bytes) -> Sequence[Any]:
    try:
        given = read_yaml(data)
    except ValueError as error:
        raise RecorderError(f"it is no YAML that can be read: {error}") from error
    if isinstance(given, list):
        raise RecorderError("it is a list: if vcrpy before 1.0 wrote it, migrate it with `python -m vcr.migration`")
    try:
        document = msgspec.convert(given, _Document, strict=False)
    except ValueError as error:
        raise RecorderError(f"it is no VCR cassette: {error}") from error
    _check_version(document.version)
    found = document.of_ruby if document.interactions is None else document.interactions
    if found is None:
        raise RecorderError("it is no VCR cassette: there are no `interactions` in it")
    return found


def _check_version(version: int) -> None:
    if version != VERSION:
        raise RecorderError(f"version {version} of VCR cassettes is not known here, only {VERSION}: upgrade recorder")
