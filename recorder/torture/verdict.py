"""The verdict on one run of a command: by its exit code, its output, and the requests that it sent.

Pure. A command that exits with 0 says that all is well: what it prints then is to be what it prints
without a fault.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from recorder.torture.plan import PlannedFault
from recorder.torture.requests import AskedRequest

Verdict = Literal["survived", "retried", "reported", "took it for success", "hung", "did it twice"]

VERDICTS: Mapping[Verdict, str] = {
    "survived": "The output is the same, and so are the requests.",
    "retried": "It asked again, and the output is the same, as far as the recording goes.",
    "reported": "It ended with an error.",
    "took it for success": "It exited with 0 although its answer was not whole, or was another one.",
    "hung": "It did not end in time.",
    "did it twice": "Something was done again: a tool ran, or text was printed, once too often.",
}
"""What each says."""

BAD: frozenset[Verdict] = frozenset({"took it for success", "hung", "did it twice"})

_ERROR = re.compile(r"\s*(?:Uncaught )?[\w.$]*(?:Error|Exception)\b")

WORDS_LIMIT = 200  # characters of a line of the command's own words


class CommandRun(NamedTuple):
    """A command that has run: what it printed, and what it was answered with."""

    code: int | None  # None: it did not end in time
    out: bytes
    err: bytes
    requests: Sequence[AskedRequest]
    answered: Sequence[str]  # the ids of the recordings that answered, in order


class JudgedFault(NamedTuple):
    """A fault with its verdict."""

    fault: PlannedFault
    verdict: Verdict
    why: str
    run: CommandRun


def judged(fault: PlannedFault, run: CommandRun, clean: CommandRun, faulty_id: str) -> JudgedFault:
    """Return the verdict on a run with a fault, whose recording has that id; `clean` is a run
    without.
    """
    verdict, why = _verdict(fault, run, clean, faulty_id)
    return JudgedFault(fault, verdict, why, run)


def _verdict(
    fault: PlannedFault, run: CommandRun, clean: CommandRun, faulty_id: str
) -> tuple[Verdict, str]:
    struck_id = fault.exchange.exchange.exchange_id
    if run.code is None:
        return "hung", "it was ended"
    if any(each.is_again and each.is_missed for each in run.requests):
        return (
            "retried",
            "it asked again for an answer of another form: nothing recorded goes on from there",
        )
    if why := _done_twice(run, clean, {struck_id, faulty_id}):
        return "did it twice", why
    if gone_on := _gone_on(fault, run):
        return gone_on
    if run.code != 0:
        return "reported", f"exit code {run.code}: {_last_words(run)}"
    times = Counter(run.answered)
    asked_again = times[struck_id] + times[faulty_id] > Counter(clean.answered)[struck_id]
    asked_again = asked_again or any(each.is_again for each in run.requests)
    if run.out == clean.out:
        if asked_again:
            return "retried", "it asked again"
        if fault.is_whole is False:
            return "took it for success", "not whole, and not asked for again"
        return "survived", ""
    if fault.form.startswith("repeat") or (asked_again and run.out.endswith(clean.out)):
        return "did it twice", f"it printed {_difference(run, clean)}"
    return "took it for success", f"it printed {_difference(run, clean)}"


def _gone_on(fault: PlannedFault, run: CommandRun) -> tuple[Verdict, str] | None:
    """Return the verdict on a run that went on with the answer, in a request that nothing recorded
    answers.
    """
    how = {each.goes_on for each in run.requests}
    if "otherwise" in how:
        return "took it for success", "it went on with results that are not recorded"
    if "as recorded" not in how:
        return None
    if fault.is_whole is False:
        return "took it for success", "it went on with some of the recorded calls"
    return "survived", "it went on with the recorded calls, in a request that is not recorded"


def _done_twice(run: CommandRun, clean: CommandRun, struck: set[str]) -> str | None:
    """Return what was done again besides the request that was struck; None if nothing was."""
    if max(_results(run), default=0) > max(_results(clean), default=0):
        return f"it sent {max(_results(run))} results of tools in one request"
    usual = Counter(clean.answered)
    for exchange_id, times in Counter(run.answered).items():
        if exchange_id not in struck and times > usual[exchange_id]:
            return f"it sent another request {times} times"
    return None


def _results(run: CommandRun) -> list[int]:
    return [each.results for each in run.requests]


def _last_words(run: CommandRun) -> str:
    """Return the last line with an error that a command printed, or its last one: Node prints its
    version then.
    """
    printed = (run.err.strip() or run.out.strip()).decode("utf-8", "replace")
    lines = printed.splitlines() or ["it printed nothing"]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines)[-1].strip()[:WORDS_LIMIT]


def _difference(run: CommandRun, clean: CommandRun) -> str:
    return f"{len(run.out):,} bytes, not {len(clean.out):,}"
