"""A fork: the beginning of a recording, answered again, and what comes of it live, recorded as one new session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.errors import NotFoundError, UsageError
from recorder.model.events import Recording
from recorder.model.fork import ForkedFrom, fork_labels
from recorder.model.text import safe_text
from recorder.proxy.http.messages import Transport
from recorder.proxy.recording import ExchangeJournal, RecordingTransport
from recorder.proxy.routing import Routes, Upstream
from recorder.recordings.session import RecordedSession
from recorder.replay.fork import ForkTransport
from recorder.replay.matching import Matcher
from recorder.replay.transport import ReplayTransport
from recorder.store.queries.session_named import count_named
from recorder.wire.turns import is_connection

LOOKED_AT = 20  # exchanges behind --until where the first answer is looked for: a client opens few connections before


class ForkTerms(NamedTuple):
    """The options of a fork."""

    source: str  # a session, or the path of a cassette
    is_file: bool
    until: int
    speed: float | None
    model: str | None


class Fork:
    """A fork of a recording: its parent, and how far it was followed."""

    followed: ForkTransport  # as soon as it is recorded

    def __init__(self, parent: RecordedSession, terms: ForkTerms) -> None:
        self._recordings, self._terms = parent.recordings, terms
        self._session = parent.session
        self.parent = safe_text(self._session.name)  # for a terminal

    @classmethod
    async def load(cls, db: str | None, terms: ForkTerms, name: str, upstreams: Iterable[Upstream]) -> Fork:
        """Return the fork of a recording that is to be recorded as session `name`.

        Raises `UsageError` if that session exists, the recording is shorter, nothing of it would be replayed, or an
        address is missing.
        """
        if terms.model is not None and not terms.model.strip():
            raise UsageError("--model needs the name of a model: leave it out to keep that of the requests.")
        parent = await loader(db).beginning(terms.source, terms.until, is_cassette=terms.is_file)
        if terms.until and not _has_answer(parent):
            raise await _no_answer(db, terms)
        _require_addresses(parent.recordings, upstreams)
        await _require_new(db, name)
        return cls(parent, terms)

    def transport(self, upstream: Transport, journal: ExchangeJournal) -> Transport:
        """Return the transport that follows the recording, then asks `upstream`, and records both into `journal`."""
        terms = self._terms
        session_id = None if terms.is_file else self._session.session_id
        labels = fork_labels(ForkedFrom(self._session.name, terms.until, session_id))
        replay = ReplayTransport(Matcher(self._recordings, match_rules("position")), speed=terms.speed)
        record = partial(RecordingTransport, journal=journal, labels=labels)
        self.followed = ForkTransport(replay, upstream, record, model=terms.model)
        return self.followed


def _has_answer(parent: RecordedSession) -> bool:
    """Return whether a request would be answered for its answer: not a connection, a prewarm, or a probe."""
    return any(not is_connection(each) for each in Matcher(parent.recordings, match_rules("position")).unused())


async def _no_answer(db: str | None, terms: ForkTerms) -> UsageError:
    """Return the error for a beginning without an answer; it names the first exchange that is one, if that is near."""
    first = None
    for number in range(terms.until + 1, terms.until + LOOKED_AT + 1):
        try:
            parent = await loader(db).beginning(terms.source, number, is_cassette=terms.is_file)
        except UsageError:  # it has no more exchanges
            break
        if _has_answer(parent):
            first = number
            break
    which = "exchange 1 is a connection, a prewarm or a probe"
    if terms.until > 1:
        which = f"exchanges 1 to {terms.until} are connections, prewarms or probes"
    there = f"the first answer is {first}: give --until {first}, or 0" if first else "give --until 0"
    return UsageError(
        f"--until {terms.until} would replay nothing: {which}; {there} to ask the upstream from the first on."
    )


def _require_addresses(recordings: Sequence[Recording], upstreams: Iterable[Upstream]) -> None:
    """Raise `UsageError` if an upstream of the recordings has no address here: what follows is likely to go there."""
    known = {each.name for each in Routes(upstreams).upstreams}
    for each in recordings:
        name = each.request.upstream
        if name not in known:
            raise UsageError(
                f"{each.name} went to the upstream {safe_text(name)}, whose address is not known here: give it with "
                f"--upstream {safe_text(name)}=URL."
            )


async def _require_new(db: str | None, name: str) -> None:
    """Raise `UsageError` if the log has a session of that name: a fork is a session of its own."""
    try:
        async with await open_log(chosen_url(db)) as log:
            count = await count_named(log, name)
    except NotFoundError:  # a cassette is forked into a database that is still to be made
        return
    if count:
        raise UsageError(f"There is a session {safe_text(name)}, and a fork is a new one: give another --session.")
