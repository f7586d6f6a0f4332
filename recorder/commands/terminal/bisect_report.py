"""What `recorder bisect` says: before, of each run, and at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recorder.commands.serving.bisecting import EndedRun, Sought
from recorder.commands.terminal.output import dollars, echo, write_document, write_line
from recorder.commands.terminal.table import Column, Number, write_table
from recorder.model.events import Recording
from recorder.model.text import counted, safe_text
from recorder.recordings.session import projected, shortened
from recorder.replay.bisect import CheckedRun
from recorder.wire.dialects import by_path
from recorder.wire.dialects.conversation import Conversation, Part
from recorder.wire.turns import as_http

WORDS_LIMIT = 100  # characters of a question or an answer

_COLUMNS = (
    Column("recorded"),
    Number("replayed", goes=2),
    Number("live"),
    Column("check"),
    Number("exit_code", goes=3),
    Number("cost", goes=1, rare=True),
    Column("session", least=20),
)


def announcement(sought: Sought) -> str:
    """Return what is to be run at most, and what that may cost: as much as the recorded answers."""
    plan = sought.dearest()
    live = sum(len(sought.turns) - until for until in plan)
    cost_usd = sought.plan_cost_usd(plan)
    price = "the price of some of it is not known (`recorder prices update`)"
    if cost_usd is not None:
        price = f"about {dollars(str(cost_usd), is_partial=False)}, if the answers are as long as before"
    return safe_text(
        f"{sought.parent.name} has {counted(len(sought.turns), 'turn')}: {counted(len(plan), 'run')} at most, and "
        f"{counted(live, 'live turn')} of {', '.join(sought.models())} if PROGRAM asks what it asked before: {price}."
    )


def run_line(ended: EndedRun) -> str:
    """Return the line of a run that has ended."""
    run = ended.run
    line = f"  {_recorded(run)}: CMD {_verdict(run)} (exit code {ended.code}), {run.live} live, {ended.session}"
    if len(run.recorded) < run.until:
        line += f"; only {len(run.recorded)} of its turns were answered from the recording, and it counts for these"
    return safe_text(line)


def write_report(sought: Sought, runs: Sequence[EndedRun], format: str) -> None:
    """Write the runs and the verdict on stdout."""
    if format == "json":
        write_document(_document(sought, runs))
        return
    if runs:
        write_table(_COLUMNS, [_cells(ended) for ended in runs])
    for line in _verdict_lines(sought):
        write_line(safe_text(line))
    live = sum(ended.run.live for ended in runs)
    spent = ""
    if any(map(_cost, runs)):
        cost_usd = sum(ended.cost_usd for ended in runs)
        spent = f", {dollars(str(cost_usd), is_partial=any(ended.is_partial for ended in runs))}"
    echo(f"{counted(len(runs), 'run')}, {counted(live, 'live turn')}{spent}.")


def _cells(ended: EndedRun) -> list[Any]:
    run = ended.run
    return [
        _recorded(run),
        len(run.recorded),
        run.live,
        _verdict(run),
        ended.code,
        _cost(ended),
        ended.session,
    ]


def _cost(ended: EndedRun) -> str:
    """Return what a run has cost; nothing without a price."""
    if ended.is_partial and not ended.cost_usd:
        return ""
    return dollars(str(ended.cost_usd), is_partial=ended.is_partial) if ended.run.live else ""


def _recorded(run: CheckedRun) -> str:
    if not run.until:
        return "all live"
    return "turn 1 recorded" if run.until == 1 else f"turns 1 to {run.until} recorded"


def _verdict(run: CheckedRun) -> str:
    return "passes" if run.passes else "fails"


def _verdict_lines(sought: Sought) -> Iterator[str]:
    search, turn = sought.search, sought.step
    if turn is not None:
        answer = f"the recorded answer to turn {search.step} ({turn.name})"
        yield f"step {search.step}: CMD fails with {answer}, and passes without it."
        yield f"  asked: {question_of(turn)}"
        yield f"  answered: {answer_of(turn)}"
    elif search.verdict == "always passes":
        yield "always passes: CMD passes with all that was recorded, so what failed is not in the recording."
    elif search.verdict == "not in the model's answers":
        yield "not in the model's answers: CMD fails with all turns live, too."
    else:
        yield f"undecided: {search.why}."


def _document(sought: Sought, runs: Sequence[EndedRun]) -> dict[str, Any]:
    search, turn = sought.search, sought.step
    return {
        "session": sought.parent.name,
        "turns": len(sought.turns),
        "verdict": search.verdict,
        "why": search.why,
        "turn": search.step,
        "exchange": None if turn is None else turn.number,
        "question": None if turn is None else question_of(turn),
        "answer": None if turn is None else answer_of(turn),
        "runs": [_row(ended) for ended in runs],
    }


def _row(ended: EndedRun) -> dict[str, Any]:
    return {
        "until": ended.run.until,
        "replayed": len(ended.run.recorded),
        "live": ended.run.live,
        "check": _verdict(ended.run),
        "exit_code": ended.code,
        "session": ended.session,
        "cost_usd": str(ended.cost_usd),
        "cost_partial": ended.is_partial,
    }


def question_of(turn: Recording) -> str:
    """Return the beginning of what a request says last: the words of a person, or the result of a
    tool.
    """
    asked = as_http(turn)
    path = asked.request.target.partition("?")[0]
    conversation = by_path(asked.request.method, path).read_request(path, asked.request_body)
    if conversation is None or not conversation.messages:
        return ""
    texts: list[str] = []
    for part in conversation.messages[-1].parts:
        texts += _texts(conversation, part)
    return _shown(texts)


def _texts(conversation: Conversation, part: Part) -> list[str]:
    parts = conversation.content_of(part) if part.kind == "result" else [part]
    return [each.text for each in parts if each.text]


def answer_of(turn: Recording) -> str:
    """Return the beginning of an answer: its words and calls, or its status."""
    if turn.response is not None and turn.response.status >= 400:
        return f"status {turn.response.status}"
    said: list[str] = []
    for item in projected(turn.exchange, turn.events)["items"]:
        if item.kind == "message":
            said.append(item.text or "")
        elif item.kind == "tool_call":
            said.append(f"{item.name}({item.arguments or ''})")
    return _shown(said)


def _shown(texts: Sequence[str]) -> str:
    return shortened(" ".join(" ".join(texts).split()), WORDS_LIMIT)
