"""What the commands write with `--json` that judge, and what `query --list` does."""

from __future__ import annotations

from typing import Literal

from recorder.commands.schemas.conversations import Resent
from recorder.commands.schemas.form import Form
from recorder.diff.report import Pair, Which
from recorder.lint.rule import Severity
from recorder.probe.cases import Mode
from recorder.probe.judge import State as ProbeState
from recorder.replay.bisect import BisectVerdict
from recorder.torture.verdict import Verdict


class Comparison(Form):
    """How B differs from A."""

    a: str
    "Name of A."
    b: str
    "Name of B."
    is_equal: bool
    "Whether nothing differs."
    levels: dict[str, int]
    "Number of differences by level that was compared."
    pairs: list[Pair]
    "The exchanges that were compared."
    missing: list[Which]
    "Exchanges that only A has."
    added: list[Which]
    "Exchanges that only B has."


class AnswersThatDiffer(Form):
    """How many answers differ from the recorded ones."""

    differing: int
    "Number of answers that differ."
    answers: int
    "Number of answers."


class DifferenceOfShares(Form):
    """Where the difference of two shares is likely to be, with a confidence of 95 %; 0.1 is one
    answer in ten.
    """

    low: float
    "Its lower end."
    high: float
    "Its upper end."


class ResentLevel(AnswersThatDiffer):
    """The answers at one level."""

    level: Literal["shape", "tools"]
    "The level; `tools` is the next action."
    control: AnswersThatDiffer | None
    "The same of the control; null without one."
    difference: DifferenceOfShares | None
    "How much more the answers differ than the control; null without one."
    is_claim: bool
    "Whether they differ more than the control: all of `difference` is above 0."


class ResentRequests(Form):
    """Requests that were sent again, and how the answers differ."""

    session: str
    "Name of the session with the answers."
    resent_from: Resent
    "Whose requests they are."
    is_dry_run: bool
    "Whether nothing was sent."
    requests: int
    "Number of requests that this call sent, or would send."
    estimated_usd: str | None
    "What they cost with answers as long as the recorded ones, in USD; null if a price is not known."
    control: str | None
    "Name of the session of the recorded model, asked again; null if there is none."
    is_claim: bool
    "Whether the answers differ more than the control at a level."
    levels: list[ResentLevel]
    "The levels; empty with `--dry-run`."


class FaultPlace(Form):
    """Where something is wrong."""

    pos: int | None
    "Position of the event; null for the exchange as a whole."
    said: str
    "What stands there."


class RuleText(Form):
    """What a rule says."""

    severity: Severity
    "How bad it is."
    meaning: str
    "What is wrong."
    why: str
    "Which client breaks, and how that looks there."
    source: str
    "Where that is written."


class Rule(RuleText):
    """A rule."""

    id: str
    "Id of the rule, which no other rule gets."
    profiles: list[str]
    "The profiles that have it."


class Fault(RuleText):
    """What is against a rule."""

    rule: str
    "Id of the rule."
    count: int
    "Number of places."
    places: list[FaultPlace]
    "The first places."


class Judgement(Fault):
    """A finding."""

    session: str
    "Name of the session or file."
    exchange: int
    "Number of the exchange."
    exchange_id: str
    "Id of the exchange, a UUIDv7."
    profile: str
    "Whose rules were applied."


class ProbeFinding(Fault):
    """A finding of a probe."""

    exchange: int
    "Number of the exchange in the session."


class ProbedCase(Form):
    """A case of a probe."""

    session: str
    "Name of the session that has the exchanges."
    case: str
    "Name of the case."
    title: str
    "What was requested."
    mode: Mode
    "Whether a stream was requested."
    state: ProbeState
    "The result; `unsupported` is no fault."
    exchanges: list[int]
    "Numbers of the exchanges in the session."
    seconds: float
    "Seconds that the case took."
    remark: str
    "Why it is unsupported; empty otherwise."
    findings: list[ProbeFinding]
    "What is wrong."


class JudgedFault(Form):
    """A fault, and what the command made of it."""

    exchange: int
    "Number of the exchange that was struck."
    fault: str
    "The fault, as `recorder mock --fault` takes it."
    place: str
    "Where in the answer it strikes."
    verdict: Verdict
    "The verdict."
    why: str
    "What the command did; empty if it survived."
    exit_code: int | None
    "Exit code of the command; null if it did not end in time."
    requests: int
    "Number of its requests."
    cassette: str | None
    "The cassette that shows it; null without `--cassettes`."


class BisectRun(Form):
    """A run of a bisect."""

    until: int
    "The last turn that it could answer from the recording; 0 if all were live."
    replayed: int
    "Number of turns that were answered from the recording."
    live: int
    "Number of turns that were asked live."
    check: Literal["passes", "fails"]
    "What the check said."
    exit_code: int
    "Exit code of the check."
    session: str
    "Name of the session that has the run."
    cost_usd: str
    "What the live turns cost in USD, as decimal text, as far as it is known."
    cost_partial: bool
    "True if the cost of a live turn is not known."


class Bisected(Form):
    """The recorded answer that makes a check fail."""

    session: str
    "Name of the recording."
    turns: int
    "Number of its turns."
    verdict: BisectVerdict
    "The verdict."
    why: str
    "Why it is undecided; empty otherwise."
    turn: int | None
    "Number of the turn; null if there is none."
    exchange: int | None
    "Number of its exchange."
    question: str | None
    "The beginning of what is said last in its request."
    answer: str | None
    "The beginning of its recorded answer."
    runs: list[BisectRun]
    "The runs, in order."


class ListedColumn(Form):
    """A column of a view."""

    name: str
    "Name of the column."
    meaning: str
    "What it means; empty if its name makes it clear."


class ListedView(Form):
    """A view."""

    view: str
    "Name of the view."
    row: str
    "What a row is."
    columns: list[ListedColumn]
    "Its columns, in order."
    example: str
    "A statement that uses it, for the engine of this log."
