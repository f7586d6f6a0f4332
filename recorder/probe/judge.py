"""The judgement of a probe: what was sent and what was recorded in, a verdict for each case out.
Pure.

An answer is judged three times: by the rules of `recorder lint`, by the expectations of its case,
and by the SDK.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Literal, NamedTuple

from recorder.lint.linter import Finding, lint
from recorder.lint.report import STRICT, Lenience
from recorder.lint.rule import Hit
from recorder.model.events import Recording
from recorder.model.text import storable
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import Mode
from recorder.probe.checks import Check, Fault
from recorder.probe.rules import BY_ID
from recorder.probe.runner import Sent

State = Literal["passed", "faulty", "unsupported"]

UNSUPPORTED = frozenset({400, 404, 405, 422, 501})
"""Statuses with which a gateway may refuse what is optional: 500 is not a refusal, but a failure.
"""


class CaseVerdict(NamedTuple):
    """What was found in one case, streamed or plain."""

    case: str
    title: str
    mode: Mode
    state: State
    exchanges: Sequence[int]  # their numbers in the session
    seconds: float
    remark: str  # why it is unsupported
    # each with the number of its exchange; those of lint among them
    findings: Sequence[tuple[int, Finding]]


def judge(
    sent: Sequence[Sent],
    recordings: Sequence[Recording],
    reader: Check | None,
    lenience: Lenience = STRICT,
) -> list[CaseVerdict]:
    """Return the verdicts, in order.

    `recordings` are those of the session, the n-th that of the n-th request.

    `reader` reads the answers by an SDK.
    """
    pairs = zip(sent, recordings, strict=True)
    groups = groupby(pairs, lambda pair: (pair[0].case.name, pair[0].mode))
    twins: _Twins = {}
    return [_verdict(list(group), twins, reader, lenience) for _, group in groups]


_Group = Sequence[tuple[Sent, Recording]]
_Twins = dict[tuple[str, int], ProbeAnswer]  # the streamed answers so far, by case and step


def _verdict(group: _Group, twins: _Twins, reader: Check | None, lenience: Lenience) -> CaseVerdict:
    before: list[ProbeAnswer] = []
    findings: list[tuple[int, Finding]] = []
    remark = ""
    for sent, recording in group:
        place, is_streamed = (sent.case.name, sent.number), sent.mode == "streamed"
        twin = None if is_streamed else twins.get(place)
        answer = ProbeAnswer(recording, is_streamed=is_streamed, before=tuple(before), twin=twin)
        before.append(answer)
        if is_streamed:
            twins[place] = answer
        if sent.case.is_optional and _is_refusal(sent, answer):
            remark = f"status {answer.status}: {answer.summary.error}"
            break
        findings += (
            (recording.number, finding)
            for finding in lenience.minded(_findings(sent, answer, reader))
        )
    first, _ = group[0]
    seconds = sum(each.seconds for each, _ in group)
    state: State = "unsupported" if remark else "passed"
    if any(lenience.is_fault(finding) for _, finding in findings):
        state = "faulty"
    numbers = [recording.number for _, recording in group]
    return CaseVerdict(
        first.case.name, first.case.title, first.mode, state, numbers, seconds, remark, findings
    )


def _is_refusal(sent: Sent, answer: ProbeAnswer) -> bool:
    """Return whether an answer is a proper refusal: it has a status for that, and the form of the
    API's errors.
    """
    return answer.status in UNSUPPORTED and sent.api.wrong_error(answer.document) is None


def _findings(sent: Sent, answer: ProbeAnswer, reader: Check | None) -> Iterable[Finding]:
    """Yield the findings of one answer: of one that did not come, only that."""
    checks = list(sent.step.expects)
    if reader is not None and not sent.step.is_cut:
        checks.append(reader)
    transport = list(_transport_faults(sent, answer))
    faults = transport or chain.from_iterable(check(answer) for check in checks)
    hits: dict[str, list[Hit]] = {}
    for rule_id, found in faults:
        hit = Hit(None, found) if isinstance(found, str) else found
        hits.setdefault(rule_id, []).append(hit._replace(said=storable(hit.said)))
    for rule_id, places in hits.items():
        rule = BY_ID[rule_id]
        yield Finding(
            rule.id, rule.severity, rule.meaning, rule.why, rule.source, len(places), places
        )
    if not any(rule_id in ("PR001", "PR002") for rule_id in hits):
        yield from lint(answer.recording)


def _transport_faults(sent: Sent, answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield why there is no answer, or only a part of one."""
    end = answer.end
    if sent.trouble == "silent":
        yield "PR002", f"after {sent.seconds:.0f} s, and {len(sent.body):,} bytes"
    elif sent.trouble in ("endless", "too large"):
        yield "PR003", f"left after {sent.seconds:.0f} s, and {len(sent.body):,} bytes"
    elif answer.response is None:
        yield "PR001", (end.error if end else None) or ""
    elif end is not None and end.outcome in ("upstream_reset", "truncated", "timeout"):
        yield "PR004", end.error or end.outcome
