"""The report of a torture: rows for a program, JUnit for a CI, a summary for a person.

Pure: the words of the command are in the rows unchanged, and the caller that prints them must
escape them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import SubElement

from recorder.model.junit import Counts, suite, xml
from recorder.model.text import counted, safe_text
from recorder.torture.verdict import BAD, VERDICTS, JudgedFault


def is_bad(faults: Iterable[JudgedFault]) -> bool:
    """Return whether a client did with a fault what it must not."""
    return any(each.verdict in BAD for each in faults)


def row(judged: JudgedFault, cassette: str | None) -> dict[str, Any]:
    """Return the row of a fault; `cassette` is the file that shows it."""
    fault = judged.fault
    return {
        "exchange": fault.exchange.number,
        "fault": fault.form,
        "place": fault.place,
        "verdict": judged.verdict,
        "why": judged.why,
        "exit_code": judged.run.code,
        "requests": len(judged.run.requests),
        "cassette": cassette,
    }


def summary(faults: Sequence[JudgedFault]) -> str:
    """Return the last line: `52 faults: 30 survived, 20 reported, 2 took it for success`."""
    found = Counter(each.verdict for each in faults)
    parts = [f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict]]
    return f"{counted(len(faults), 'fault')}: {', '.join(parts)}."


def junit_text(name: str, faults: Sequence[JudgedFault], seconds: float) -> bytes:
    """Return the report as JUnit's XML: a test for each fault."""
    failures = sum(1 for each in faults if each.verdict in BAD)
    made = suite("recorder torture", Counts(len(faults), failures), seconds, {"recording": name})
    for each in faults:
        test = SubElement(
            made, "testcase", classname=f"exchange {each.fault.exchange.number}", name=_name(each)
        )
        if each.verdict in BAD:
            SubElement(
                test, "failure", message=safe_text(f"{each.verdict}: {each.why}"), type=each.verdict
            )
    return xml(made)


def _name(each: JudgedFault) -> str:
    return f"{each.fault.form} {each.fault.place}"
