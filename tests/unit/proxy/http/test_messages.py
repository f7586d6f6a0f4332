"""The seam between transports: what is adapted keeps its order and its pressure, and nobody looks
for methods.
"""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from recorder.proxy.http.messages import IteratedBody, IteratedUpload, Upload
from tests.support.corpus import ROOT

SEAM = [
    path
    for folder in ("proxy", "replay", "commands/serving")
    for path in (ROOT / "recorder" / folder).rglob("*.py")
]


class Foreign:
    """A body as another library gives it: to be iterated, and closed."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b"):
            self.seen.append(f"read {chunk.decode()}")
            yield chunk

    async def aclose(self) -> None:
        self.seen.append("closed")


class Full:
    """Who takes the body, and can take no more after each chunk."""

    write_paused = True

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    async def drain(self) -> None:
        self._seen.append("drained")


async def test_an_iterated_body_is_pumped_no_faster_than_it_is_taken() -> None:
    foreign, taken = Foreign(), list[bytes]()
    body = IteratedBody(foreign)
    assert body.begun() == b""
    assert await body.pump(taken.append, Full(foreign.seen)) == b""
    await body.aclose()
    assert taken == [b"a", b"b"]
    assert foreign.seen == ["read a", "drained", "read b", "drained", "closed"]


async def test_an_iterated_upload_is_never_there_as_a_whole() -> None:
    upload: Upload = IteratedUpload(Foreign())
    assert upload.take() is None
    assert [chunk async for chunk in upload] == [b"a", b"b"]


def test_nobody_looks_whether_a_method_is_there() -> None:
    """A module of the standard library may lack what a platform lacks: that is asked for."""
    looks = [look for path in SEAM for look in sniffed(path)]
    assert looks == []


def sniffed(path: Path) -> Iterator[str]:
    """The lines on which a module asks an object for an attribute by its name."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="hasattr" | "getattr" as how), args=[asked, *_]):
                if not isinstance(asked, ast.Name) or asked.id not in modules:
                    yield f"{path.name}, line {node.lineno}: {how}"
