"""The cases of agents that their provider hosts: a session is made, and asked by its id; its events
are in streams.

There is no limit on the tokens of an answer: each session has one on what it may cost. A stream
does not end: the client leaves when the session rests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from recorder.probe import checks
from recorder.probe.cases import (
    LONG,
    LONG_TOKENS,
    TEXT,
    TEXT_TOKENS,
    WEATHER_QUESTION,
    WRONG_KEY,
    Case,
    Json,
    ProbeCall,
    ProbeStep,
    Progress,
    WrongError,
)
from recorder.probe.checks import Check
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import Object, request_object
from recorder.wire.framing.sse import parse

_ID = re.compile(r"[\w-]{1,500}", re.ASCII)  # of a session: it becomes a part of a path
_LEAVES_AFTER = 8  # events: after the opening ones, and the first of the answer


class HostedForm(NamedTuple):
    """What the cases need of an API."""

    name: str  # of its dialect
    path: str  # of sessions
    stream: str  # of events, below the path of a session
    make: Callable[[Progress, object, bool], Json]
    """A body that makes a session: of what is known, what the agent is asked, and whether the
    client has a tool.
    """
    results: Callable[[Sequence[Object]], list[Json]]  # what answers the calls in these events
    at_rest: re.Pattern[bytes]  # is in the last event of a turn, or of a part of one
    done: str  # the reason of an answer that was said in full
    wrong_error: WrongError
    answer: Sequence[Check]  # what each turn must be
    document: Sequence[Check]  # what the answer that makes a session must be
    is_streamed: bool  # that answer may be the stream of the first turn


def events_in(received: bytes) -> list[Object]:
    """Return the payloads of a stream; of a document, that."""
    blocks = received.replace(b"\r\n", b"\n").split(b"\n\n")
    found = [request_object(parse(block + b"\n\n").data or b"") for block in blocks]
    return [each for each in found if each] or [request_object(received)]


def hosted_cases(form: HostedForm) -> tuple[Case, ...]:
    """Return the cases of an API."""
    text = _turn(
        form, TEXT, (*form.answer, checks.ends(form.done), checks.counts(TEXT_TOKENS), checks.says)
    )
    waits = (checks.answers, checks.ends("requires_action"), checks.calls())
    called = _turn(form, WEATHER_QUESTION, waits, with_tool=True)
    answered = (*form.answer, checks.ends(form.done), checks.says)
    results = ProbeStep(lambda progress: _adds(form, progress), (checks.accepted,), 0)
    left = _turn(
        form,
        LONG,
        (checks.answers, checks.flows),
        most_tokens=LONG_TOKENS,
        leaves_after=_LEAVES_AFTER,
    )
    document = _made(form, TEXT, form.document, is_streamed=False)
    refused = _made(form, 42, (checks.refuses(form.wrong_error),), is_streamed=False)
    locked = _made(
        form, TEXT, (checks.locks((401, 403), form.wrong_error),), is_streamed=False, key=WRONG_KEY
    )
    return (
        Case("text", "A short answer", text, modes=("streamed",)),
        Case(
            "tool-results",
            "A turn that waits for a tool",
            (*called, results, _followed(form, answered)),
            ("streamed",),
        ),
        Case("stop", "A long answer that the client leaves", left, modes=("streamed",)),
        Case("session", "A session that is made", (document,), modes=("plain",)),
        Case("bad-request", "A request that makes no sense", (refused,), modes=("plain",)),
        Case("wrong-key", "A key that nobody has", (locked,), modes=("plain",), needs_key=True),
    )


def _turn(
    form: HostedForm,
    question: str,
    expects: Sequence[Check],
    *,
    with_tool: bool = False,
    most_tokens: int = TEXT_TOKENS,
    leaves_after: int | None = None,
) -> tuple[ProbeStep, ...]:
    """Return the steps of a first turn: the request that makes the session may have it in its
    answer.
    """
    if form.is_streamed:
        made = _made(
            form,
            question,
            expects,
            with_tool=with_tool,
            most_tokens=most_tokens,
            leaves_after=leaves_after,
        )
        return (made,)
    made = _made(form, question, (checks.accepted,), with_tool=with_tool, is_streamed=False)
    return made, _followed(form, expects, most_tokens, leaves_after)


def _made(
    form: HostedForm,
    question: object,
    expects: Sequence[Check],
    *,
    with_tool: bool = False,
    is_streamed: bool = True,
    most_tokens: int = TEXT_TOKENS,
    key: str | None = None,
    leaves_after: int | None = None,
) -> ProbeStep:
    """Return the step that makes a session."""

    def make(progress: Progress) -> ProbeCall:
        body = form.make(progress, question, with_tool)
        if not is_streamed:
            return ProbeCall("POST", form.path, body, key)
        at_rest = form.at_rest if leaves_after is None else None
        return ProbeCall("POST", form.path, {**body, "stream": True}, key, leaves_after, at_rest)

    return ProbeStep(make, tuple(expects), most_tokens, is_cut=leaves_after is not None)


def _followed(
    form: HostedForm,
    expects: Sequence[Check],
    most_tokens: int = TEXT_TOKENS,
    leaves_after: int | None = None,
) -> ProbeStep:
    """Return the step of a stream of a session, up to where that rests."""

    def make(progress: Progress) -> ProbeCall | None:
        path = _session(form, progress)
        if path is None:
            return None
        at_rest = form.at_rest if leaves_after is None else None
        return ProbeCall(
            "GET", f"{path}/{form.stream}", leaves_after=leaves_after, leaves_at=at_rest
        )

    return ProbeStep(make, tuple(expects), most_tokens, is_cut=leaves_after is not None)


def _adds(form: HostedForm, progress: Progress) -> ProbeCall | None:
    """Return the request with the results of the calls that a session waits for."""
    path = _session(form, progress)
    results = form.results(events_in(progress.received))
    return ProbeCall("POST", f"{path}/events", {"events": results}) if path and results else None


def _session(form: HostedForm, progress: Progress) -> str | None:
    """Return the path of the session that the first answer names; None if it names none."""
    hosted = by_name(form.name).hosted
    assert hosted is not None, "these are the formats that have one"
    ids = [hosted.id_in(each) for each in events_in(progress.first)]
    id = next(filter(None, ids), "")
    return f"{form.path}/{id}" if _ID.fullmatch(id) else None
