"""The report of a probe, as lines for a person, rows for a program, and JUnit for a CI.

Pure: recorded text is in the lines unchanged, and the caller that prints them must escape it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, starmap
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from recorder.lint.linter import Finding
from recorder.lint.report import PLACES_SHOWN, SEVERITIES, WIDTH, finding_row, paragraphs, tally
from recorder.model.junit import Counts, suite, xml
from recorder.model.text import counted, safe_text
from recorder.probe.cases import MODES
from recorder.probe.judge import CaseVerdict


def is_faulty(verdicts: Iterable[CaseVerdict]) -> bool:
    """Return whether there is an error or a warning: notes are not faults."""
    return any(each.state == "faulty" for each in verdicts)


def lines(verdicts: Sequence[CaseVerdict], width: int = WIDTH) -> Iterable[str]:
    """Yield the table of cases, and each finding once, with the cases that have it and the client
    that it breaks.
    """
    yield from _table(verdicts)
    found = _by_rule(verdicts)
    for places in found.values():
        yield ""
        yield from _finding_lines(places, width)
    yield ""
    yield summary(verdicts)


def summary(verdicts: Sequence[CaseVerdict]) -> str:
    """Return the last line: `2 errors, 1 warning in 12 cases; 8 passed, 2 unsupported`."""
    found = tally(places[0][1] for places in _by_rule(verdicts).values())
    states = Counter(each.state for each in verdicts)
    passed = [
        f"{states[state]} {state}" for state in ("passed", "faulty", "unsupported") if states[state]
    ]
    return f"{found or 'No finding'} in {counted(len(verdicts), 'case')}: {', '.join(passed)}"


def rows(session: str, verdicts: Iterable[CaseVerdict]) -> Iterable[dict[str, Any]]:
    """Yield a row for each case, with its findings."""
    for each in verdicts:
        findings = [
            {"exchange": number, **finding_row(finding)} for number, finding in each.findings
        ]
        yield {"session": session, **each._asdict(), "findings": findings}


def junit(api: str, session: str, verdicts: Sequence[CaseVerdict]) -> bytes:
    """Return the report as JUnit's XML: a test for each case and mode, skipped where the gateway
    does not have it.
    """
    states = Counter[str](each.state for each in verdicts)
    made = _suite(api, session, len(verdicts), states, sum(each.seconds for each in verdicts))
    for each in verdicts:
        test = SubElement(
            made,
            "testcase",
            classname=f"{api}.{each.case}",
            name=each.mode,
            time=f"{each.seconds:.3f}",
        )
        if each.state == "unsupported":
            SubElement(test, "skipped", message=safe_text(each.remark))
        elif each.state == "faulty":
            text = "\n".join(chain.from_iterable(starmap(_failure_lines, each.findings)))
            SubElement(test, "failure", message=_cell(each), type="finding").text = safe_text(text)
    return xml(made)


def junit_of_none(api: str, session: str, message: str) -> bytes:
    """Return the report of a probe that came to no verdict: one test, with the error."""
    made = _suite(api, session, 1, Counter(error=1), 0)
    test = SubElement(made, "testcase", classname=api, name="gateway")
    SubElement(test, "error", message=safe_text(message))
    return xml(made)


def _suite(api: str, session: str, tests: int, states: Counter[str], seconds: float) -> Element:
    counts = Counts(tests, states["faulty"], states["unsupported"], states["error"])
    return suite(f"recorder probe {api}", counts, seconds, {"session": session})


def _failure_lines(exchange: int, finding: Finding) -> Iterable[str]:
    yield f"{finding.severity} {finding.rule} in exchange {exchange}: {finding.meaning}"
    yield from (f"  {place.said}" for place in finding.places[:PLACES_SHOWN] if place.said)
    yield f"  why: {finding.why}"


_Places = list[tuple[CaseVerdict, Finding, int]]


def _by_rule(verdicts: Iterable[CaseVerdict]) -> dict[str, _Places]:
    """Return the findings by their rule, the worst first."""
    found: dict[str, _Places] = {}
    for verdict in verdicts:
        for exchange, finding in verdict.findings:
            found.setdefault(finding.rule, []).append((verdict, finding, exchange))
    return dict(sorted(found.items(), key=lambda each: SEVERITIES.index(each[1][0][1].severity)))


def _table(verdicts: Sequence[CaseVerdict]) -> Iterable[str]:
    cases = {each.case: each.title for each in verdicts}
    cells = {(each.case, each.mode): _cell(each) for each in verdicts}
    name_width = max(len("case"), *map(len, cases))
    title_width = max(len(title) for title in cases.values())
    mode_width = max(len(MODES[0]), *map(len, cells.values()))
    yield f"{'case':<{name_width}}  {'':<{title_width}}  {MODES[0]:<{mode_width}}  {MODES[1]}"
    for name, title in cases.items():
        streamed, plain = (cells.get((name, mode), "-") for mode in MODES)
        yield f"{name:<{name_width}}  {title:<{title_width}}  {streamed:<{mode_width}}  {plain}"


def _cell(verdict: CaseVerdict) -> str:
    if verdict.state != "faulty":
        return verdict.state
    return tally((finding for _, finding in verdict.findings), SEVERITIES[:2])


def _finding_lines(places: _Places, width: int) -> Iterable[str]:
    _, finding, _ = places[0]
    cases = dict.fromkeys(
        f"{verdict.case} {verdict.mode} (:{exchange})" for verdict, _, exchange in places
    )
    hits = chain.from_iterable(finding.places for _, finding, _ in places)
    said = dict.fromkeys(hit.said for hit in hits if hit.said)
    texts = [f"in {', '.join(cases)}", *list(said)[:PLACES_SHOWN], f"why: {finding.why}"]
    return paragraphs(finding, texts, width)
