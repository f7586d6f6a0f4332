"""The form of a case: requests of one API, each with what its answer must be; and the cases that
every API has.

What is of one API is in the module `probe` of the folder of its format: the `ApiForm` of the common
cases, and its own. Each case is sent streamed, plain, or both. Its steps are requests that follow
each other: the second one of `resume` goes on where the first was left. All requests limit what the
model may write, so that the cost of a run is known before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.probe import checks
from recorder.probe.answer import ProbeAnswer
from recorder.probe.checks import Check

Json = dict[str, Any]
Mode = Literal["streamed", "plain"]

MODES: tuple[Mode, ...] = ("streamed", "plain")
TEXT = "Say in two or three sentences what a letter is."
LONG = "Count from 1 to 300 in words, separated by commas, and write nothing else."
PUZZLE = "A farmer has 17 sheep, and all but 9 run away. Then he buys as many as are left. How many has he now?"
WEATHER_QUESTION = (
    "What is the weather in Paris and in Zürich, in Celsius? Call the tool for both cities at once."
)
CITY_QUESTION = "Describe the city of Paris."
TOOL_HELP = "Tells the weather in a city at this moment."
RESULT = '{"temperature": 18, "sky": "clear"}'

# that an answer may have: a sentence, and what a reasoning model thinks before it
TEXT_TOKENS = 2_048
LONG_TOKENS = 4_096  # for what is to be interrupted, or thought about
TOKEN_BYTES = 4  # of a request, about
CUT_TOKENS = 32  # where the limit is to be met; some providers refuse fewer than 16

WRONG_KEY = "sk-recorder-probe-wrong-key"  # of the length and the letters of a key, and nobody's


class ProbeCall(NamedTuple):
    """A request to be sent."""

    method: str
    target: str  # path and query, as the API has them
    body: Json | None = None
    key: str | None = None  # in place of the given one
    leaves_after: int | None = None  # events, after which the client leaves
    # what is in the last event that the client waits for
    leaves_at: re.Pattern[bytes] | None = None


class Progress(NamedTuple):
    """What is known when a request is made: the settings of the run, and what was last answered in
    its case.
    """

    model: str
    is_streamed: bool
    received: bytes = b""
    first: bytes = b""  # the answer to the first step


class ProbeStep(NamedTuple):
    """One request of a case."""

    make: Callable[[Progress], ProbeCall | None]  # None if the answer before does not allow it
    expects: tuple[Check, ...]
    most_tokens: int  # that the model may write
    # the client leaves on purpose: the end is not there, and an SDK cannot read it
    is_cut: bool = False


class Case(NamedTuple):
    """A proof of one ability."""

    name: str  # as `--only` takes it
    title: str
    steps: tuple[ProbeStep, ...]
    modes: tuple[Mode, ...] = MODES
    is_optional: bool = False  # a proper refusal is not a fault: not every gateway or model has it
    needs_key: bool = False  # it needs a key


Create = Callable[[Progress, Json, int], tuple[str, Json]]
"""Return the target and the body of a request: of what is known, a body without its model and
limit, and the limit.
"""

WrongError = Callable[[Any], str | None]
"""Return what an error document lacks; None if it has the form of the API."""


class ApiForm(NamedTuple):
    """What the common cases need of an API."""

    create: Create
    asks: Callable[[str], Json]  # a body that asks a question
    thinks: Json  # what has a model think
    tools: Json
    results: Json  # a conversation with the results of two calls
    forces: Json | None  # demands the call of a tool; None if no request can
    formats: Json  # demands an answer that fits a schema
    titles: Mapping[str, str]  # of the cases that APIs call by other names
    document: Check
    wrong_error: WrongError
    reasoning: tuple[Check, ...]
    done: str  # the reason of an answer that was said in full
    called: str  # of one that ends with a call
    cut: str  # of one that a limit on tokens cut
    leaves_after: int  # events
    locks: tuple[int, ...] = (401, 403)  # statuses for a wrong key
    has_ids: bool = True  # calls have them
    names_model: bool = True  # answers do
    # it counts tokens in the total that are neither input nor output
    has_more_in_total: bool = False

    def answered(
        self, body: Json, *expects: Check, most_tokens: int = TEXT_TOKENS, reason: str | None = None
    ) -> ProbeStep:
        """Return the step of a request that is answered in full."""
        ends = checks.ends(reason or self.done)
        counts = checks.counts(most_tokens, has_more_in_total=self.has_more_in_total)
        named = (checks.named,) if self.names_model else ()
        common = (checks.answers, self.document, *named, ends, counts)
        return self.step(body, *common, *expects, most_tokens=most_tokens)

    def left(self, body: Json, most_tokens: int) -> ProbeStep:
        """Return the step of a request whose answer the client leaves."""
        return self.step(
            body,
            checks.answers,
            checks.flows,
            most_tokens=most_tokens,
            leaves_after=self.leaves_after,
        )

    def step(
        self,
        body: Json,
        *expects: Check,
        most_tokens: int = TEXT_TOKENS,
        key: str | None = None,
        leaves_after: int | None = None,
    ) -> ProbeStep:
        """Return the step of a request."""

        def make(progress: Progress) -> ProbeCall:
            target, whole = self.create(progress, body, most_tokens)
            return ProbeCall("POST", target, whole, key, leaves_after)

        return ProbeStep(make, expects, most_tokens, is_cut=leaves_after is not None)


def posts(path: str, limit: str, streamed: Json) -> Create:
    """Return what makes requests whose body has the model, its limit on tokens, and what asks for a
    stream.
    """

    def create(progress: Progress, body: Json, most_tokens: int) -> tuple[str, Json]:
        stream = streamed if progress.is_streamed else {}
        return path, {"model": progress.model, limit: most_tokens, **body, **stream}

    return create


def user(content: Any) -> list[Json]:
    """Return what a user says, as most APIs have it."""
    return [{"role": "user", "content": content}]


def common_cases(form: ApiForm) -> tuple[Case, ...]:
    """Return the cases that every API has."""
    return (*_answered_cases(form), *_ended_cases(form))


def _answered_cases(form: ApiForm) -> tuple[Case, ...]:
    text = form.answered(form.asks(TEXT), checks.says, checks.flows)
    reasoning = form.answered(
        form.asks(PUZZLE) | form.thinks, checks.says, *form.reasoning, most_tokens=LONG_TOKENS
    )
    results = form.answered(form.results | form.tools, checks.says)
    structured = form.answered(form.asks(CITY_QUESTION) | form.formats, checks.fits())
    two = checks.calls(2, has_ids=form.has_ids)
    parallel = form.answered(form.asks(WEATHER_QUESTION) | form.tools, two, reason=form.called)
    return (
        Case("text", "A short answer", (text,)),
        Case("reasoning", form.titles["reasoning"], (reasoning,), is_optional=True),
        Case("parallel-tools", "Two calls of a tool at once", (parallel,)),
        Case("tool-results", "An answer from results of tools", (results,)),
        *_forced_cases(form),
        Case("structured", "An answer that fits a schema", (structured,), is_optional=True),
    )


def _forced_cases(form: ApiForm) -> tuple[Case, ...]:
    if form.forces is None:
        return ()
    body = form.asks(TEXT) | form.tools | form.forces
    one = checks.calls(has_ids=form.has_ids)
    forced = form.answered(body, checks.forces(), one, reason=form.called)
    return (Case("forced-tool", form.titles["forced-tool"], (forced,)),)


def _ended_cases(form: ApiForm) -> tuple[Case, ...]:
    """Return the cases whose answers are cut, left or refused."""
    short = partial(form.step, most_tokens=CUT_TOKENS)
    cut = short(form.asks(LONG), checks.answers, form.document, checks.limits(CUT_TOKENS, form.cut))
    left = form.left(form.asks(LONG), LONG_TOKENS)
    senseless = dict.fromkeys(form.asks(TEXT), 42)
    refused = short(senseless, checks.refuses(form.wrong_error))
    locked = short(form.asks(TEXT), checks.locks(form.locks, form.wrong_error), key=WRONG_KEY)
    return (
        Case("max-tokens", "A long answer, cut by a limit on tokens", (cut,)),
        Case("stop", "A long answer that the client stops", (left,), modes=("streamed",)),
        Case("bad-request", "A request that makes no sense", (refused,)),
        Case("wrong-key", "A key that nobody has", (locked,), needs_key=True),
    )


class SdkReading(NamedTuple):
    """What an SDK makes of an answer."""

    text: str
    calls: list[tuple[str | None, Any]]
    tokens: tuple[int | None, int | None]  # of input and output, as the provider counts


class ProbeApi(NamedTuple):
    """An API, as it is probed."""

    name: str  # of its dialect
    model: str  # unless one is given
    headers: Callable[[str], Mapping[str, str]]  # that carry a key
    wrong_error: WrongError
    cases: tuple[Case, ...]
    sdk: str  # the package that can read its answers, or two: `anthropic and botocore`
    # by an HTTP client, which gives that answer to everything
    read: Callable[[Any, ProbeAnswer], SdkReading]


class Bound(NamedTuple):
    """What a run sends, and how much a model may write at most."""

    requests: int
    input_tokens: int  # about, of a gateway that adds nothing
    output_tokens: int


def bound(cases: Sequence[tuple[Case, Mode]], model: str) -> Bound:
    """Return the bound of these cases. What follows from an answer is a request without a body."""
    requests = size_bytes = most_tokens = 0
    for case, mode in cases:
        for step in case.steps:
            call = step.make(Progress(model, mode == "streamed"))
            requests += 1
            most_tokens += step.most_tokens
            if call is not None and call.body:
                size_bytes += len(msgspec.json.encode(call.body))
    return Bound(requests, size_bytes // TOKEN_BYTES, most_tokens)
