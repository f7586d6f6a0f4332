"""The checks of a probe: functions from an answer to the faults in it, each by the id of a rule in `rules`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.faults import Fault
from recorder.lint.rule import Hit
from recorder.probe.answer import ProbeAnswer


def answers(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield what is wrong with the head of an answer to a request that has to be answered."""
    if answer.status >= 300:
        yield "PR010", Hit(None, f"status {answer.status}{_said(answer)}")
    elif answer.status and answer.is_streamed and not answer.view.is_stream:
        yield "PR011", Hit(None, f"content-type: {answer.content_type or 'none'}")
    elif answer.status and not answer.is_streamed and answer.view.is_stream:
        yield "PR012", Hit(None, f"content-type: {answer.content_type}")


def says(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield an answer without a text."""
    if _is_good(answer) and not answer.text.strip():
        yield "PR020", Hit(None, f"finish reason {answer.exchange.finish_reason}")


def counts(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield an answer without a count of tokens."""
    if _is_good(answer) and answer.usage is None:
        yield "PR030", Hit(None)


def _is_good(answer: ProbeAnswer) -> bool:
    """Return whether there is an answer to look at: what is wrong with another one is a fault of its own."""
    return 200 <= answer.status < 300


def _said(answer: ProbeAnswer) -> str:
    """Return the message of an error, for the text of a fault."""
    message = answer.exchange.error or answer.view.body[:200].decode("utf-8", "replace")
    return f": {' '.join(message.split())[:200]}" if message else ""
