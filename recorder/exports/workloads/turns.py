"""Requests of a session with their answers, and the conversations that they make.

Rules of this file:

* A request goes on with an earlier one of the same thread and purpose if that was over when it
  began, and if it begins with all of its prompt but for the last message, which clients change
  (reminders), and says more.
* What has no answer by a model is counted by its reason, not left out in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from recorder.errors import NotFoundError
from recorder.model.events import Exchange, Recording, Session
from recorder.model.text import counted, safe_text
from recorder.projections.rows import ExchangeRow
from recorder.recordings.requests import load_requests
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import Cutoff, ExchangeState, take_snapshot
from recorder.wire.dialects import by_name
from recorder.wire.dialects.prompt import Prompt, PromptSegment, prompt_of, system_segments
from recorder.wire.logical_request import LogicalRequest

_ANSWERED = ("completed", "incomplete")


class PromptOutline(NamedTuple):
    """What tells the beginning of a prompt from that of another one."""

    segments: Sequence[bytes]  # digests
    system: int  # segments before the first message that is not of the system
    stable: int  # segments before the last message
    size_bytes: int

    def goes_on_with(self, earlier: PromptOutline) -> bool:
        """Return whether this prompt begins with an earlier one, and says more."""
        least = max(earlier.system + 1, earlier.stable)
        is_longer = len(self.segments) > len(earlier.segments) >= least
        return is_longer and self.segments[:least] == earlier.segments[:least]


class AnsweredRequest(NamedTuple):
    """A request, and the answer of a model; of a background response that is what was retrieved
    last.
    """

    number: int
    row: ExchangeRow
    answer: ExchangeState
    asked: tuple[Recording, LogicalRequest] | None  # None: only the response was recorded
    outline: PromptOutline | None

    @property
    def exchange(self) -> Exchange:
        """Return the exchange that the client began; its answer may be of another one."""
        return self.answer.exchange if self.asked is None else self.asked[0].exchange

    @property
    def started_ns(self) -> int:
        return self.exchange.started_ns

    @property
    def ended_ns(self) -> int:
        """Return when the answer was over."""
        return self.answer.exchange.started_ns + (self.answer.timing.duration_ns or 0)

    @property
    def segments(self) -> int:
        """Return the number of segments of the prompt."""
        return 0 if self.outline is None else len(self.outline.segments)

    def prompt(self) -> Prompt | None:
        """Return the prompt with all that the request continues."""
        return None if self.asked is None else _prompt(*self.asked)


class AnsweredRequests(NamedTuple):
    """The answered requests of a session in order, and by reason how many exchanges are not among
    them.
    """

    session: Session
    requests: Sequence[AnsweredRequest]
    left_out: Counter[str]

    def only(
        self, who: str, is_wanted: Callable[[AnsweredRequest], bool], otherwise: str
    ) -> list[AnsweredRequest]:
        """Return the requests that are wanted; the others are left out for that reason.

        Raises `NotFoundError` if there is none, so that nobody answered who should have.
        """
        wanted = [each for each in self.requests if is_wanted(each)]
        self.left_out[otherwise] += len(self.requests) - len(wanted)
        if not wanted:
            reasons = "".join(f" {each}" for each in self.remarks())
            raise NotFoundError(
                f"No {who} answered in session {safe_text(self.session.name)}.{reasons}"
            )
        return wanted

    def remarks(self) -> Iterator[str]:
        """Yield sentences about what is missing."""
        if self.left_out.total():
            reasons = ", ".join(
                f"{reason} ({count:,})" for reason, count in self.left_out.items() if count
            )
            yield f"{counted(self.left_out.total(), 'exchange')} left out: {reasons}."
        for each in self.requests:
            if each.asked is not None and not each.asked[1].is_complete:
                reason = each.asked[1].reason or "what it continues is not there"
                yield f"The prompt of exchange {each.number} is not whole: {reason}."


async def load_answered(
    log: LogReader, session: Session, chosen: Sequence[Numbered]
) -> AnsweredRequests:
    """Return the answered requests among some exchanges of a session.

    Raises `RecorderError` if they are too large together.
    """
    _, everything = await select_exchanges(log, session.session_id, None)
    snapshot = await take_snapshot(log, session, everything, chosen, Cutoff())
    asked = {
        each.exchange.exchange_id: (each, request)
        for each, request in await load_requests(log, session, chosen)
    }
    states = [each for each in snapshot.exchanges if isinstance(each, ExchangeState)]
    by_number = {state.number: state for state in states}
    left_out = Counter({"that cannot be read": len(snapshot.unfoldable)})
    found = []
    for state in states:
        best = by_number.get(state.superseded_by[0]) if state.superseded_by else None
        answer = best or state
        if state.row.is_retrieval and answer is not state:
            continue
        reason = _reason(state, answer)
        if reason is not None:
            left_out[reason] += 1
            continue
        request = asked.get(state.exchange.exchange_id)
        prompt = None if request is None else _prompt(*request)
        outline = (
            None if prompt is None or request is None else _outline(request[0].exchange, prompt)
        )
        found.append(AnsweredRequest(state.number, state.row, answer, request, outline))
    return AnsweredRequests(session, found, left_out)


def _reason(state: ExchangeState, answer: ExchangeState) -> str | None:
    """Return why an exchange has no answer of a model, as a clause; None if it has one."""
    if state.row.purpose in ("prewarm", "probe"):
        return "in which no model answers"
    if answer.row.status not in _ANSWERED:
        return f"with status {answer.row.status or 'open'}"
    if not answer.items and answer.usage.input_tokens is None:
        return "without an answer of a model"
    return None


def _prompt(recording: Recording, request: LogicalRequest) -> Prompt | None:
    format = by_name(recording.exchange.api).prompt
    path = recording.exchange.target.partition("?")[0]
    return None if format is None else prompt_of(format, path, request.encoded())


def _outline(exchange: Exchange, prompt: Prompt) -> PromptOutline | None:
    format, segments = by_name(exchange.api).prompt, prompt.segments
    if format is None or not segments:
        return None
    last = segments[-1]
    of_last = [each for each in segments if (each.part, each.element) == (last.part, last.element)]
    return PromptOutline(
        segments=[sha256(each.compared).digest() for each in segments],
        system=system_segments(format, segments),
        stable=len(segments) - len(of_last),
        size_bytes=sum(map(weight_of, segments)),
    )


def weight_of(segment: PromptSegment) -> int:
    """Return the bytes that a segment counts for: a picture weighs less than it has, a parameter
    nothing.
    """
    is_text = len(segment.content) == segment.size_bytes
    return len(segment.compared) if is_text else segment.size_bytes


def conversations(requests: Sequence[AnsweredRequest]) -> list[list[AnsweredRequest]]:
    """Return the requests of each conversation, in the order in which the conversations began."""
    found: list[list[AnsweredRequest]] = []
    for request in requests:
        before = [each for each in found if _goes_on(request, each[-1])]
        if before:
            max(before, key=lambda each: each[-1].segments).append(request)
        else:
            found.append([request])
    return found


def _goes_on(request: AnsweredRequest, last: AnsweredRequest) -> bool:
    one, other = request.outline, last.outline
    if one is None or other is None or last.ended_ns > request.started_ns:
        return False
    is_of_thread = (request.exchange.thread_id, request.row.purpose) == (
        last.exchange.thread_id,
        last.row.purpose,
    )
    return is_of_thread and one.goes_on_with(other)
