"""What the fixture `recorder_replay` is: the recordings of one test, as a server and as transports that share them.

A test fails at its end if it asked for what was not recorded, or did not ask for what was. Only a test that passed
leaves a cassette.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

import pytest

from recorder.cassettes.writing import cassette, save
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.matching import Matcher, Seen
from recorder.playback import Clock
from recorder.recorded import Recorded
from recorder.routing import UPSTREAMS, Routes, Upstream, parse_upstream
from recorder.testing.contents import Contents, in_cassette, in_database, nothing
from recorder.testing.libraries import AsyncBack, Library, SyncBack, library_for
from recorder.testing.loopback import Loopback
from recorder.testing.marked import Settings, settings
from recorder.testing.playing import AsyncReplay, SyncReplay
from recorder.testing.taping import Taping
from recorder.transports.faults import FaultTransport
from recorder.transports.pace import LOOP, THREAD
from recorder.transports.replay import ReplayTransport
from recorder.transports.upstream import UpstreamTransport

LISTED = 10  # of what was asked, or was there, in a message
GRACE_S = 1.0  # for the last response to be recorded whole after its client has it

_VERSIONED = frozenset({"openai"})  # the SDKs that want the version in their base URL


@contextmanager
def _failing() -> Iterator[None]:
    """What is wrong with recordings or settings fails the test in a sentence."""
    try:
        yield
    except RecorderError as error:
        pytest.fail(f"recorder: {error}", pytrace=False)


def opened(item: pytest.Item, mode: str) -> Replay:
    """The recordings of a test. Fails it if there are none, or its marker makes no sense."""
    with _failing():
        chosen = settings(item, mode)
        return Replay(chosen, _contents(chosen, item.name))


def _contents(chosen: Settings, name: str) -> Contents:
    if chosen.session is not None:
        return in_database(chosen.session)
    if chosen.replays and chosen.cassette.exists():
        return in_cassette(chosen.cassette)
    if chosen.records:
        return nothing(name)
    without = ", without the fault in its marker" if chosen.faults else ""
    how = f"Record it from the real upstream{without}:\n  {chosen.how_to('once')}"
    raise NotFoundError(f"There is no cassette {chosen.shown}. {how}")


class Replay:
    """The fixture."""

    def __init__(self, chosen: Settings, contents: Contents) -> None:
        self._settings, self._contents = chosen, contents
        self._recordings = contents.recordings()
        self._matcher = Matcher(self._recordings, chosen.rules)
        self._taping = Taping() if chosen.records else None
        self._loopback: Loopback | None = None
        self._starting = Lock()  # threads of a test share its server

    def base_url(self, upstream: str = "openai") -> str:
        """Where a server on this machine stands for an upstream, as its SDK takes a base URL."""
        with _failing():
            routes = Routes([*_only_recorded(self._recordings), *self._settings.upstreams])
            names = [each.name for each in routes.upstreams]
            if upstream not in names:
                raise UsageError(f"There is no upstream {upstream!r}: there are {', '.join(names)}.")
            with self._starting:
                self._loopback = self._loopback or Loopback(self._core(LOOP, UpstreamTransport), routes)
        return f"{self._loopback.url}/{upstream}{'/v1' if upstream in _VERSIONED else ''}"

    def transport(self, library: Library | None = None) -> SyncReplay:
        """A transport for a Client of httpx2 or httpx, the module given as `library`."""
        module = library_for(library)
        core = self._core(THREAD, lambda: SyncBack(module.HTTPTransport(), module))
        return SyncReplay(core, module, self._matcher)

    def async_transport(self, library: Library | None = None) -> AsyncReplay:
        """As `transport`, for an AsyncClient."""
        module = library_for(library)
        core = self._core(LOOP, lambda: AsyncBack(module.AsyncHTTPTransport(), module))
        return AsyncReplay(core, module, self._matcher)

    @property
    def requests(self) -> list[Seen]:
        """What was asked, in order, and how it was answered; while recording, a `miss` went to the upstream."""
        return self._matcher.seen()

    @property
    def session(self) -> Contents:
        """What was recorded: its `text`, `tool_calls`, `usage` and `events`."""
        if self._taping is None:
            return self._contents
        session = self._contents.session
        return Contents(session, [*self._contents.episodes, *self._taping.episodes(session.session_id)])

    def close(self, *, passed: bool) -> None:
        """The test is over. Save what was recorded, or fail it, if it has passed so far."""
        if self._loopback is not None:
            self._loopback.close(GRACE_S if self._taping else 0.0)
        if not passed:
            return
        with _failing():
            self._save()
        said = [*self._unmatched(), *self._unused()]
        if said:
            asked = [f"  {_place(each)}: {each.how}" for each in self.requests] or ["  nothing"]
            pytest.fail("\n".join([*said, "", "Asked was:", *_short(asked)]), pytrace=False)

    def explanation(self) -> str:
        """What a person should know of a test that failed by itself."""
        lost = self._taping is not None and bool(self.requests)
        return "\n".join([*self._unmatched(), *(["Nothing was saved: the test failed."] if lost else [])])

    def _core(self, clock: Clock, upstream: Callable[[], Any]) -> Any:
        chosen = self._settings
        otherwise = 404 if self._taping is None else self._taping.through(upstream())
        core = ReplayTransport(self._matcher, speed=chosen.speed, otherwise=otherwise, clock=clock)
        return FaultTransport(core, chosen.faults, clock=clock) if chosen.faults else core

    def _save(self) -> None:
        held = self.session
        if len(held.episodes) == len(self._contents.episodes):
            return
        path = self._settings.cassette
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path, cassette(held.session, held.episodes))
        except OSError as error:
            raise RecorderError(f"The cassette {path} cannot be written: {error.strerror}.") from error

    def _unmatched(self) -> list[str]:
        """Requests that nothing answered, and why."""
        missed = [each for each in self.requests if each.how == "miss"] if self._taping is None else []
        if not missed:
            return []
        count = "1 request was" if len(missed) == 1 else f"{len(missed)} requests were"
        return [
            f"recorder: {count} not answered by {self._settings.source}.",
            *_short([str(m.message) for m in missed]),
        ]

    def _unused(self) -> list[str]:
        """Recordings that nobody asked for; after a fault, a client may not come as far."""
        unused = {id(each) for each in self._matcher.unused()}
        if not unused or self._settings.faults:
            return []
        numbered = [(number, each) for number, each in enumerate(self._recordings, 1) if id(each) in unused]
        count = f"{len(unused)} of {len(self._recordings)} recording{'' if len(self._recordings) == 1 else 's'}"
        verb = "was" if len(unused) == 1 else "were"
        lines = [f"  {number}. {_place(each.request)}" for number, each in numbered]
        said = [f"recorder: {count} in {self._settings.source} {verb} not asked for:", *_short(lines)]
        if self._settings.session is None:
            said += ["To record all of it anew:", f"  {self._settings.how_to('rewrite')}"]
        return said


def _place(request: Any) -> str:
    return f"{request.method} {request.target} ({request.upstream})"


def _short(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return [*lines[:LISTED], *more]


def _only_recorded(recordings: Iterable[Recorded]) -> Iterator[Upstream]:
    """Upstreams that only the recorder knew: `/NAME/…` is found again, and nothing is ever sent there."""
    for name in sorted({each.request.upstream for each in recordings} - UPSTREAMS.keys()):
        with suppress(UsageError):  # the name came from outside
            yield parse_upstream(f"{name}=http://{name}.invalid")
