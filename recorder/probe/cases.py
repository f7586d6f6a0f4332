"""The form of a case: requests of one API, each with what its answer must be. Data; an API has its own in a module.

Each case is sent streamed, plain, or both. Its steps are requests that follow each other: the second one of `resume`
goes on where the first was left. All requests limit what the model may write, so that the cost of a run is known before
it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.probe.checks import Check

Json = dict[str, Any]
Mode = Literal["streamed", "plain"]
Key = Literal["given", "wrong"]

MODES: tuple[Mode, ...] = ("streamed", "plain")
TEXT = "Say in two or three sentences what a letter is."
LONG = "Count from 1 to 300 in words, separated by commas, and write nothing else."
PUZZLE = "A farmer has 17 sheep, and all but 9 run away. Then he buys as many as are left. How many has he now?"
WEATHER_QUESTION = "What is the weather in Paris and in Zürich, in Celsius? Call the tool for both cities at once."
CITY_QUESTION = "Describe the city of Paris."
TOOL = "get_weather"
TOOL_HELP = "Tells the weather in a city at this moment."
RESULT = '{"temperature": 18, "sky": "clear"}'

TEXT_TOKENS = 2_048  # that an answer may have: a sentence, and what a reasoning model thinks before it
LONG_TOKENS = 4_096  # for what is to be interrupted, or thought about
TOKEN_BYTES = 4  # of a request, about
CUT_TOKENS = 32  # where the limit is to be met; some providers refuse fewer than 16

WRONG_KEY = "sk-recorder-probe-wrong-key"  # of the length and the letters of a key, and nobody's


class ProbeCall(NamedTuple):
    """A request to be sent."""

    method: str
    target: str  # path and query, as the API has them
    body: Json | None = None
    key: Key = "given"
    leaves_after: int | None = None  # frames, after which the client leaves


class Progress(NamedTuple):
    """What is known when a request is made: the settings of the run, and the answers to the steps before it."""

    model: str
    is_streamed: bool
    received: Sequence[bytes] = ()


class ProbeStep(NamedTuple):
    """One request of a case."""

    make: Callable[[Progress], ProbeCall | None]  # None if the answer before does not allow it
    expects: tuple[Check, ...]
    most_tokens: int  # that the model may write
    is_cut: bool = False  # the client leaves on purpose: the end is not there, and an SDK cannot read it


class Case(NamedTuple):
    """A proof of one ability."""

    name: str  # as `--only` takes it
    title: str
    steps: tuple[ProbeStep, ...]
    modes: tuple[Mode, ...] = MODES
    is_optional: bool = False  # a proper refusal is not a fault: not every gateway or model has it
    needs_key: bool = False  # it makes no sense where no key was given


class ProbeApi(NamedTuple):
    """An API, as it is probed."""

    name: str  # of its dialect
    model: str  # unless one is given
    headers: Callable[[str], Mapping[str, str]]  # that carry a key
    wrong_error: Callable[[Any], str | None]  # what an error document lacks; None if it has the form of the API
    cases: tuple[Case, ...]


class Bound(NamedTuple):
    """What a run sends, and how much a model may write at most."""

    requests: int
    input_tokens: int  # about, of a gateway that adds nothing
    output_tokens: int


def bound(cases: Sequence[tuple[Case, Mode]], model: str) -> Bound:
    """Return the bound of these cases. What follows from an answer is a request without a body."""
    steps = [(step, mode) for case, mode in cases for step in case.steps]
    calls = [step.make(Progress(model, mode == "streamed", (b"",))) for step, mode in steps]
    size_bytes = sum(len(msgspec.json.encode(call.body)) for call in calls if call is not None and call.body)
    return Bound(len(steps), size_bytes // TOKEN_BYTES, sum(step.most_tokens for step, _ in steps))
