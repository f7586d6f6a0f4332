"""Cassettes of VCR, read: what vcrpy and pytest-recording write, as YAML or JSON, and Ruby's VCR, which came first, and
Betamax, whose JSON has the form of Ruby's.

Each interaction becomes an exchange, in their order. VCR knows no times: one exchange follows the other, and the last
ends now; but where `recorded_at` says when, an exchange began then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes import Entry, Names, refusing
from recorder.cassettes.budget import BodyBudget, check_values, read_whole
from recorder.cassettes.calls import ImportedFile
from recorder.cassettes.vcr.interactions import VcrInteraction, calls
from recorder.cassettes.vcr.yaml_values import YAML_LIMIT, read_yaml
from recorder.errors import RecorderError
from recorder.model.events import Session

VERSION = 1


class _Document(msgspec.Struct, frozen=True):
    version: int = VERSION
    interactions: tuple[Any, ...] | None = None
    of_ruby: tuple[Any, ...] | None = msgspec.field(name="http_interactions", default=None)


class _JsonDocument(msgspec.Struct, frozen=True):
    version: int = VERSION
    interactions: tuple[msgspec.Raw, ...] | None = None
    of_ruby: tuple[msgspec.Raw, ...] | None = msgspec.field(name="http_interactions", default=None)  # and of Betamax


class Vcr(ImportedFile):
    """A cassette of VCR, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no interaction."""
        data = read_whole(file, ", too much for YAML: split it", YAML_LIMIT)
        self._found = list(calls(_interactions(data), "VCR", BodyBudget()))
        super().__init__((call for _, call in self._found), "there is no interaction in it")

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield an exchange for each interaction."""
        began_ns = names.now_ns() - sum(call.end_ns for _, call in self._found)
        self._calls = []
        for started_ns, call in self._found:
            self._calls.append(call._replace(started_ns=began_ns if started_ns is None else started_ns))
            began_ns += call.end_ns
        yield from super().entries(session, names)


# -- the document


def _interactions(data: bytes) -> Iterator[tuple[int, VcrInteraction]]:
    """Yield the interactions of the document with their numbers. Raises `RecorderError`."""
    raw = _json_interactions(data) if data.lstrip().startswith(b"{") else _yaml_interactions(data)
    for number, each in enumerate(raw, 1):
        with refusing(f"interaction {number} is none of a VCR cassette"):
            if isinstance(each, msgspec.Raw):
                interaction = msgspec.json.decode(each, type=VcrInteraction)
            else:
                interaction = msgspec.convert(each, VcrInteraction, strict=False)
        yield number, interaction


def _json_interactions(data: bytes) -> Sequence[Any]:
    with refusing("it is not a VCR cassette"):
        document = msgspec.json.decode(check_values(data), type=_JsonDocument)
    return _interactions_of(document)


def _yaml_interactions(data: bytes) -> Sequence[Any]:
    with refusing("it is not YAML that can be read"):
        given = read_yaml(data)
    if isinstance(given, list):
        raise RecorderError("it is a list: if vcrpy before 1.0 wrote it, migrate it with `python -m vcr.migration`")
    with refusing("it is not a VCR cassette"):
        document = msgspec.convert(given, _Document, strict=False)
    return _interactions_of(document)


def _interactions_of(document: _Document | _JsonDocument) -> Sequence[Any]:
    _check_version(document.version)
    found = document.of_ruby if document.interactions is None else document.interactions
    if found is None:
        raise RecorderError("it is not a VCR cassette: there are no `interactions` in it")
    return found


def _check_version(version: int) -> None:
    if version != VERSION:
        raise RecorderError(f"version {version} of VCR cassettes is not known here, only {VERSION}: upgrade recorder")
