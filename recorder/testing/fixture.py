"""The fixture `recorder_replay`: the recordings of one test, as a server and as transports that
share them.

A test fails at its end if it sent a request that was not recorded, or did not use a recording. Only
a test that passed writes a cassette.

Mode `verify`: what the upstream answers now, compared with what a cassette has. Nothing is written.

Rules of this file:

* Both sides are redacted before they are compared: a message is in logs of CI, and has no private
  value.
* Two runs of a model never say the same: what is compared is chosen by levels of `recorder.diff`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import msgspec
import pytest

from recorder.diff import Report, Terms, diff
from recorder.diff.report import Rendering
from recorder.errors import NotFoundError, RecorderError, UsageError
from recorder.model.events import Recording, Session
from recorder.model.text import counted, limited, safe_text
from recorder.program import load
from recorder.proxy.http.messages import Transport
from recorder.proxy.recording import new_id
from recorder.proxy.routing import HostRoutes, Routes, Upstream, recorded_upstreams
from recorder.proxy.upstream import UpstreamTransport
from recorder.recordings.files import load_cassette
from recorder.recordings.memory import MemoryJournal
from recorder.recordings.session import RecordedSession, require_whole
from recorder.replay.faults.transport import Fault, FaultTransport
from recorder.replay.matching import Elsewhere, Match, Matcher, MatchRequest, Miss, Seen
from recorder.replay.matching.noise import Rules
from recorder.replay.pace import LOOP, THREAD, Clock
from recorder.replay.transport import MISS_STATUS, ReplayTransport
from recorder.replay.websocket.transport import WebSocketTransport
from recorder.testing.clearing import redacted_rows
from recorder.testing.libraries import AsyncBack, Library, SyncBack, library_for
from recorder.testing.loopback import Loopback, UnixLoopback, guard
from recorder.testing.redactions import Redactions
from recorder.testing.replaying import AsyncReplay, JournalRecording, SyncReplay
from recorder.testing.saving import (
    SOURCE,
    is_of_this_run,
    is_only_of,
    is_shared,
    of_test,
    save_recorded,
)
from recorder.testing.settings import Settings, settings
from recorder.testing.subject import RecordedTest, loaded
from recorder.wire.providers import BY_NAME, PROVIDERS
from recorder.wire.recording import recording_of
from recorder.wire.upstreams import HOSTS

LINES = 60  # of a message: a provider that changed its format differs in every exchange


def deviations(
    chosen: Settings, there: RecordedSession, recorded: Sequence[Recording]
) -> list[str]:
    """Return a message on how the upstream's answers differ from a cassette; nothing if they do
    not.

    Raises `RecorderError` if one of the two cannot be redacted.
    """
    report = _compared(chosen, there, recorded)
    if report.is_equal:
        return []
    lines = [safe_text(line.plain) for line in Rendering().lines(report)]
    return [
        f"recorder: the upstream does not answer as {chosen.source} does. "
        f"A is what was recorded, B what came now; compared: {', '.join(report.levels)}.",
        *limited(lines, LINES, "lines more"),
        *_advice(chosen),
    ]


def _compared(chosen: Settings, there: RecordedSession, recorded: Sequence[Recording]) -> Report:
    own = of_test(there, chosen)
    one, other = (_redacted(chosen, there, each) for each in (own, recorded))
    continued = (there.continued, ())
    report = diff(one, other, chosen.levels, Terms(rules=chosen.rules), continued)
    others_may_ask = len(own) == len(there.recordings) and is_shared(there, chosen)
    return msgspec.structs.replace(report, missing=[]) if others_may_ask else report


def _redacted(
    chosen: Settings, there: RecordedSession, recordings: Sequence[Recording]
) -> list[Recording]:
    if chosen.redactions.are_none:
        return list(recordings)
    rows = redacted_rows(there.session, recordings, chosen.redactions)
    return [
        recording_of(*row, number=each.number) for row, each in zip(rows, recordings, strict=True)
    ]


def _advice(chosen: Settings) -> list[str]:
    if chosen.session is not None:
        return []
    return ["If that is how it is now, record it again:", f"  {chosen.how_to('rewrite')}"]


LISTED = 10  # of what was asked, or was there, in a message
ASKED_NOTHING = (
    "recorder: there is nothing to record, because the test asked for nothing. Give its client "
    "recorder_replay.base_url('openai') or a transport; with the marker alone, make the client inside of the test."
)
NO_KEY = "none"  # without a key SDKs do not start
GRACE_S = 1.0  # for the last response to be recorded whole after its client has it

# that SDKs want in their base URL
_VERSIONS = {provider.name: provider.sdk_version for provider in PROVIDERS}


@contextmanager
def _failing() -> Iterator[None]:
    """Fail the test with the one sentence of an error of ours, without a traceback."""
    try:
        yield
    except RecorderError as error:
        raise pytest.fail.Exception(f"recorder: {error}", pytrace=False) from None


def opened(item: pytest.Item, mode: str, began_ns: int, *, is_of_many: bool) -> Replay:
    """Return the recordings of a test. Fails it if there are none, or its marker makes no sense.

    `is_of_many`: its marker is that of many tests, of which some need none.
    """
    with _failing():
        chosen = settings(item, mode, began_ns, is_of_many=is_of_many)
        loaded = _load(chosen, item.name)
        if (
            chosen.mode == "once"
            and chosen.is_there
            and is_of_this_run(loaded.session.created_ns, chosen)
        ):
            # a test of this run that shares the cassette has begun it
            chosen = chosen._replace(mode="new_episodes")
        return Replay(chosen, loaded)


def _load(chosen: Settings, name: str) -> RecordedSession:
    if chosen.session is not None:
        return loaded("session_in", None, chosen.session)
    if chosen.replays and chosen.is_there:
        return load_cassette(chosen.cassette)
    if chosen.records or chosen.is_of_many:
        return RecordedSession(Session(new_id(), time.time_ns(), name, SOURCE, "{}", "live"))
    raise NotFoundError(f"There is no cassette {chosen.shown}. {_how_to_record(chosen)}")


def _how_to_record(chosen: Settings) -> str:
    without = ", without the fault in its marker" if chosen.faults else ""
    return f"Record it from the real upstream{without}:\n  {chosen.how_to('once')}"


class _RedactingMatcher(Matcher):
    """A matcher that redacts requests as they would have been recorded."""

    def __init__(
        self, recordings: Sequence[Recording], rules: Rules, redactions: Redactions
    ) -> None:
        super().__init__(recordings, rules)
        self._redactions = redactions

    def match(self, request: MatchRequest) -> Match | Miss:
        return super().match(self._redactions.request(request))

    def note(self, request: MatchRequest, how: Elsewhere, message: str) -> None:
        super().note(self._redactions.request(request), how, message)


class Replay(RecordedTest):
    """The fixture."""

    def __init__(self, chosen: Settings, loaded: RecordedSession) -> None:
        self._settings, self._loaded = chosen, loaded
        named = [
            msgspec.structs.replace(each, name=f"exchange {each.number} of {chosen.source}")
            for each in loaded.recordings
        ]
        self._recordings = [chosen.redactions.recording(each) for each in require_whole(named)]
        answering = [] if chosen.verifies else self._recordings
        self._matcher = _RedactingMatcher(answering, chosen.rules, chosen.redactions)
        self._journal = MemoryJournal() if chosen.records or chosen.verifies else None
        self._faulty: list[FaultTransport] = []
        self._loopback: Loopback | None = None
        self._unix_loopback: UnixLoopback | None = None
        self._starting = Lock()  # threads of a test share its server
        self._guard = None if self._journal or chosen.allows_network else guard()

    def variables(self, *, points_clients: bool) -> dict[str, str]:
        """Return what is set in the environment: in a replay, so that a client that does not come
        here is noticed, and with `points_clients` what points clients here.
        """
        found: dict[str, str] = {}
        if self._guard is not None:
            found |= self._guard.proxy.variables(os.environ)
        if points_clients:
            found |= self._clients()
        return found

    def base_url(self, upstream: str = "openai") -> str:
        """Return the URL of a server on this machine in place of an upstream, as its SDK takes a
        base URL.
        """
        with _failing():
            routes = Routes(self._upstreams())
            names = [each.name for each in routes.upstreams]
            if upstream not in names:
                raise UsageError(
                    f"There is no upstream {upstream!r}: there are {', '.join(names)}."
                )
            with self._starting:
                self._loopback = self._loopback or Loopback(self._answers(), routes)
        return f"{self._loopback.url}/{upstream}{_VERSIONS.get(upstream, '')}"

    def transport(self, library: Library | None = None) -> SyncReplay:
        """Return a transport for a Client of httpx2 or httpx, the module given as `library`."""
        module = library_for(library)
        core = self._core(THREAD, lambda: SyncBack(module.HTTPTransport(), module))
        return SyncReplay(core, module, self._matcher)

    def async_transport(self, library: Library | None = None) -> AsyncReplay:
        """Return the same as `transport`, for an AsyncClient."""
        module = library_for(library)
        core = self._core(LOOP, lambda: AsyncBack(module.AsyncHTTPTransport(), module))
        return AsyncReplay(core, module, self._matcher)

    def requests_adapter(self) -> Any:
        """Return an adapter for a session of requests: `session.mount("https://", …)`.

        No socket is opened.
        """
        library = load("recorder.testing.requests_library")
        return library.ReplayAdapter(self._core(THREAD, library.AdapterBack))

    def aiohttp_connector(self) -> Any:
        """Return a connector for a ClientSession of aiohttp: whatever host the session asks, this
        test answers.

        As any connector it is made where the event loop runs.
        """
        import aiohttp

        with _failing(), self._starting:
            routes = HostRoutes(self._upstreams(), any_path=self._journal is None)
            self._unix_loopback = self._unix_loopback or UnixLoopback(self._answers(), routes)
        return aiohttp.UnixConnector(str(self._unix_loopback.path))

    @property
    def requests(self) -> list[Seen]:
        """Return the requests in order, each with how it was answered; while recording, a `miss`
        went to the upstream.
        """
        return self._matcher.seen()

    @property
    def session(self) -> RecordedSession:
        """Return what was recorded: its `text`, `tool_calls`, `usage` and `events`.

        While recording, what the test has got so far, from the cassette or from the upstream, in
        order.
        """
        if self._journal is None:
            return self._loaded
        session = self._loaded.session
        loaded = {each.exchange.exchange_id: each for each in self._loaded.recordings}
        recorded = iter(self._journal.recordings(session.session_id))
        got: list[Recording | None] = []
        for each in self.requests:
            got.append(
                loaded.pop(each.exchange_id, None) if each.exchange_id else next(recorded, None)
            )
        in_order = enumerate([*filter(None, got), *recorded], 1)
        return RecordedSession(
            session, [msgspec.structs.replace(each, number=number) for number, each in in_order]
        )

    def close(self, *, passed: bool) -> str | None:
        """End the test: if it has passed so far, save what was recorded, or fail it.

        Return a remark, if any.
        """
        __tracebackhide__ = True
        for loopback in (self._loopback, self._unix_loopback):
            if loopback is not None:
                loopback.close(GRACE_S if self._journal else 0.0)
        if self._guard is not None:
            self._guard.close()
        if not passed:
            return None
        with _failing():
            remark = self._finish()
        wrong = [*self._unmatched(), *self._past(), *self._unused(), *self._idle()]
        if wrong:
            requests = [f"  {_place(each)}: {each.how}" for each in self.requests] or ["  nothing"]
            pytest.fail(
                "\n".join([*wrong, *self._advice(), "", "Asked was:", *limited(requests, LISTED)]),
                pytrace=False,
            )
        return remark

    def explanation(self) -> str:
        """Return the remarks for a test that failed by its own assertion."""
        lost = self._journal is not None and bool(self.requests)
        missed = [*self._unmatched(), *self._idle()]
        advice = self._advice() if missed else []
        nothing = f"compared with {self._settings.source}" if self._settings.verifies else "saved"
        lines = [f"Nothing was {nothing}: the test failed."] if lost else []
        return "\n".join([*missed, *advice, *self._past(), *lines])

    def _clients(self) -> dict[str, str]:
        """Return the variables of `recorder env` that point clients here, each with a key if the
        test has none.
        """
        found: dict[str, str] = {}
        for upstream in Routes(self._upstreams()).upstreams:
            provider = BY_NAME.get(upstream.name)
            if provider is None:
                continue
            server = self.base_url(provider.name).removesuffix(
                f"/{provider.name}{provider.sdk_version}"
            )
            for variable, version in provider.base_variables.items():
                found[variable] = f"{server}/{provider.name}{version}"
            for variable, value in provider.environment.items():
                found.setdefault(variable, value.format(url=server))
            keys = [*filter(None, (provider.key_variable, *provider.other_key_variables))]
            if keys and not any(map(os.environ.get, keys)):
                found[keys[0]] = NO_KEY
        return found

    def _upstreams(self) -> list[Upstream]:
        return [
            *recorded_upstreams(each.request.upstream for each in self._recordings),
            *self._settings.upstreams,
        ]

    def _answers(self) -> Transport:
        """Return the transport of the server, which WebSocket clients can connect to, too."""
        replay = self._replay(LOOP, UpstreamTransport)
        return WebSocketTransport(self._with_faults(replay, LOOP), replay)

    def _core(self, clock: Clock, upstream: Callable[[], Any]) -> Transport:
        return self._with_faults(self._replay(clock, upstream), clock)

    def _replay(self, clock: Clock, upstream: Callable[[], Any]) -> ReplayTransport:
        otherwise = (
            MISS_STATUS if self._journal is None else JournalRecording(upstream(), self._journal)
        )
        return ReplayTransport(
            self._matcher, speed=self._settings.speed, otherwise=otherwise, clock=clock
        )

    def _with_faults(self, replay: ReplayTransport, clock: Clock) -> Transport:
        if not self._settings.faults:
            return replay
        self._faulty.append(FaultTransport(replay, self._settings.faults, clock=clock))
        return self._faulty[-1]

    def _finish(self) -> str | None:
        """Save what was recorded; in mode `verify` fail the test if it is not what the recordings
        have.
        """
        __tracebackhide__ = True
        if self._journal is None:
            return None
        recorded = self._journal.recordings(self._loaded.session.session_id)
        if (
            self._settings.mode == "once"
            and not self._settings.is_of_many
            and not recorded
            and not self.requests
        ):
            pytest.fail(ASKED_NOTHING, pytrace=False)
        if not self._settings.verifies:
            used = {each.exchange_id for each in self.requests if each.exchange_id is not None}
            return save_recorded(self._settings, self._loaded, recorded, used)
        if found := deviations(self._settings, self._loaded, recorded):
            pytest.fail("\n".join(found), pytrace=False)
        return None

    def _unmatched(self) -> list[str]:
        """Return a message on requests that nothing answered, and why."""
        missed = (
            [each for each in self.requests if each.how == "miss"] if self._journal is None else []
        )
        if not missed:
            return []
        if not self._settings.is_there and self._settings.session is None:
            return [
                f"recorder: There is no cassette {self._settings.shown}, and the test asks for an answer."
            ]
        count = "1 request was" if len(missed) == 1 else f"{len(missed)} requests were"
        return [
            f"recorder: {count} not answered by {self._settings.source}.",
            *limited(_once(str(each.message) for each in missed), LISTED),
        ]

    def _past(self) -> list[str]:
        """Return a message on each API that a client was about to ask in place of the recordings."""
        if self._guard is None:
            return []
        return [
            f"recorder: {host} was to be asked past the recordings, and was refused. Give its client "
            f"recorder_replay.base_url({HOSTS.get(host, 'upstream')!r}), or another transport: it does not use the one "
            "it has. allow_network=True in the marker lets it through."
            for host in self._guard.proxy.refused().past({each.upstream for each in self.requests})
        ]

    def _unused(self) -> list[str]:
        """Return a message on unused recordings.

        None after a fault: a client may not come as far.
        """
        unused = {id(each) for each in self._matcher.unused()}
        if not unused or self._settings.faults or is_shared(self._loaded, self._settings):
            return []
        numbered = [
            (number, each) for number, each in enumerate(self._recordings, 1) if id(each) in unused
        ]
        count = f"{len(unused)} of {counted(len(self._recordings), 'recording')}"
        verb = "was" if len(unused) == 1 else "were"
        lines = [f"  {number}. {_place(each.request)}" for number, each in numbered]
        return [
            f"recorder: {count} in {self._settings.source} {verb} not asked for:",
            *limited(lines, LISTED),
        ]

    def _idle(self) -> list[str]:
        """Return a message on each fault that no request of the test has met."""
        if self._settings.is_of_many and not self.requests:
            return []
        idle = [
            fault
            for fault in self._settings.faults
            if all(fault.form in each.unused for each in self._faulty)
        ]
        return [
            f"recorder: the fault {fault.form} did nothing: {self._unmet(fault)}." for fault in idle
        ]

    def _unmet(self, fault: Fault) -> str:
        """Return why a fault had no effect."""
        requested = {each.exchange_id for each in self.requests}
        streams = [
            each.events
            for each in self._loaded.recordings
            if each.exchange.exchange_id in requested
        ]
        counts = [sum(event.kind == "frame" for event in events) for events in streams]
        if not fault.needs_events or not counts:
            return fault.unmet
        which = "the stream" if len(counts) == 1 else f"the longest of {len(counts)} streams"
        return f"{which} had {counted(max(counts), 'event')}"

    def _advice(self) -> list[str]:
        """Return how to record what is wanted without a loss for other tests, if that can be done
        from here.
        """
        chosen = self._settings
        if not chosen.is_there and chosen.session is None:
            return [_how_to_record(chosen)]
        if chosen.session is not None or chosen.faults:
            return []
        if is_only_of(self._loaded, chosen):
            return ["To record all of it again:", f"  {chosen.how_to('rewrite')}"]
        if self._unmatched():
            return [
                "To add what it asks for, and leave the rest to other tests:",
                f"  {chosen.how_to('new_episodes')}",
            ]
        return ["Other tests may need them: ask for all, or give this test a cassette of its own."]


def _place(request: Any) -> str:
    return f"{request.method} {request.target} ({request.upstream})"


def _once(messages: Iterable[str]) -> list[str]:
    """Return each message once, with its count."""
    once = []
    for text, count in Counter(messages).items():
        once.append(text if count == 1 else f"{count} times: {text}")
    return once
