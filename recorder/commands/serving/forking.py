"""A fork: what equals a recording, answered from it, and the rest live, recorded as one new
session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.errors import NotFoundError, UsageError
from recorder.ingest.turn_ids import is_turn_of
from recorder.model.events import WEBSOCKET, Exchange, Recording
from recorder.model.fork import EditedTurn, ForkedFrom, fork_labels
from recorder.model.text import counted, safe_text
from recorder.proxy.http.messages import Transport
from recorder.proxy.recording import ExchangeJournal, RecordingTransport, new_id
from recorder.proxy.routing import Routes, Upstream
from recorder.recordings.session import RecordedSession
from recorder.replay.edit import Edit, edited
from recorder.replay.fork import ForkTransport, is_agent_turn
from recorder.replay.matching import Matcher
from recorder.replay.matching.noise import Rules
from recorder.replay.transport import ReplayTransport
from recorder.store.queries.session_named import count_named
from recorder.wire.redaction.headers import redact_target


class ForkTerms(NamedTuple):
    """The options of a fork."""

    source: str  # a session, or the path of a cassette
    is_file: bool
    until: int | None  # the last turn to replay; None: all of them
    speed: float | None
    model: str | None
    edits: Sequence[Edit] = ()


class Fork:
    """A fork of a recording: its parent, and how far it was followed."""

    followed: ForkTransport  # as soon as it is recorded

    def __init__(self, parent: RecordedSession, terms: ForkTerms) -> None:
        self._recordings, self._terms = parent.recordings, terms
        self._session = parent.session
        self._turns = [each for each in parent.recordings if is_agent_turn(each)]
        self._live_ids: set[str] = set()
        self.parent = safe_text(self._session.name)  # for a terminal
        self._edits = {edit.turn: edited(self._turn(edit.turn), edit) for edit in terms.edits}

    @classmethod
    async def load(
        cls, db: str | None, terms: ForkTerms, name: str, upstreams: Iterable[Upstream]
    ) -> Fork:
        """Return the fork of a recording that is to be recorded as session `name`.

        Raises `UsageError` if that session exists, the recording is shorter, an answer cannot be
        edited, or an address is missing.
        """
        if terms.model is not None and not terms.model.strip():
            raise UsageError(
                "--model needs the name of a model: leave it out to keep that of the requests."
            )
        parent = await loader(db).beginning(
            terms.source, terms.until, is_agent_turn, is_cassette=terms.is_file
        )
        _require_addresses(parent.recordings, upstreams)
        await _require_new(db, name)
        return cls(parent, terms)

    def transport(self, upstream: Transport, journal: ExchangeJournal, **options: Any) -> Transport:
        """Return the transport that follows the recording, then asks `upstream`, and records both
        into `journal`, with the options of a `RecordingTransport`.
        """
        terms = self._terms
        session_id = None if terms.is_file else self._session.session_id
        named = tuple(EditedTurn(edit.turn, edit.what) for edit in terms.edits)
        labels = fork_labels(ForkedFrom(self._session.name, len(self._turns), session_id, named))
        replay = ReplayTransport(Matcher(self._recordings, _rules()), speed=terms.speed)
        record: Callable[..., RecordingTransport] = partial(
            RecordingTransport, journal=journal, labels=labels, **options
        )
        live = record(upstream, make_id=self._live_id)
        edits = {each.exchange.exchange_id: each for each in self._edits.values()}
        self.followed = ForkTransport(replay, live, record, model=terms.model, edits=edits)
        return self.followed

    def is_live(self, exchange: Exchange) -> bool:
        """Return whether an exchange of the new session was answered by the upstream."""
        if exchange.method == WEBSOCKET:
            return any(is_turn_of(connection_id, exchange) for connection_id in self._live_ids)
        return exchange.exchange_id in self._live_ids

    def replayed(self) -> list[int]:
        """Return the numbers of the turns that were answered from the recording."""
        unused = {each.exchange.exchange_id for each in self.followed.unused()}
        numbered = enumerate(self._turns, 1)
        return [number for number, each in numbered if each.exchange.exchange_id not in unused]

    def extent(self) -> str:
        """Return a line on what can be answered from the recording, and which exchange the last
        turn is.
        """
        if not self._turns:
            return f"Nothing is answered from {self.parent}: all requests are live."
        last = self._turns[-1]
        where = f"{last.request.method} {redact_target(last.request.target)}"
        edits = ""
        if self._edits:
            which = [f"{number} ({self._turn(number).name})" for number in sorted(self._edits)]
            edits = f" Edited: turn {', '.join(which)}."
        return safe_text(
            f"Answered from {self.parent}: requests that equal one of its {counted(len(self._turns), 'turn')}, "
            f"the last of which is {last.name or 'the last exchange'} ({where}).{edits} All others are live."
        )

    def _turn(self, number: int) -> Recording:
        """Return the turn of that number.

        Raises `UsageError` if it is not answered from the recording.
        """
        if number > len(self._turns):
            count = counted(len(self._turns), "turn")
            raise UsageError(
                f"--edit {number} is not replayed: {count} of {self.parent} can be answered from it."
            )
        return self._turns[number - 1]

    def _live_id(self) -> str:
        id = new_id()
        self._live_ids.add(id)
        return id


def _rules() -> Rules:
    """Return the rules of noise.

    What only stands at the same position differs, and is what a fork is for.
    """
    rules = match_rules()
    until = "noise" if rules.until == "position" else rules.until
    return Rules(rules.rules, until, rules.redactor)


def _require_addresses(recordings: Sequence[Recording], upstreams: Iterable[Upstream]) -> None:
    """Raise `UsageError` if an upstream of the recordings has no address here: what follows is
    likely to go there.
    """
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
        raise UsageError(
            f"There is a session {safe_text(name)}, and a fork is a new one: give another --session."
        )
