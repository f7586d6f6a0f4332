"""The official SDKs as readers of recorded answers: the bytes are replayed in this process, so
nothing is paid twice.

An answer that the SDK cannot read, or reads otherwise than the log does, is a fault. What the SDK
is asked for does not matter: the replay answers with the one recording. Each is imported only where
it reads, and need not be installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from recorder.model.events import Recording
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import ProbeApi, SdkReading
from recorder.probe.checks import Check, Fault, quoted
from recorder.proxy.http.messages import Request, Response
from recorder.replay.matching import Matcher
from recorder.replay.pace import THREAD
from recorder.replay.transport import ReplayTransport
from recorder.testing.libraries import SyncFace, library_for
from recorder.wire.dialects.json_values import whole

BASE = "http://probe.invalid"  # is never asked
SHOWN = 160  # characters of a text or an exception in a fault
QUESTION = "Hello"

_short = partial(quoted, limit=SHOWN)


def reader_for(api: ProbeApi) -> Check | None:
    """Return the check that reads answers by the SDK of an API; None if it is not installed."""
    try:
        specs = [importlib.util.find_spec(name) for name in api.sdk.split(" and ")]
        is_there = None not in specs
    except ModuleNotFoundError:  # of a package in a namespace that is not there
        is_there = False
    return partial(_faults, api) if is_there else None


class _Recorded:
    """A transport that answers everything with one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._replaying = ReplayTransport(Matcher([recording]), speed=None, clock=THREAD)

    async def handle_async_request(self, request: Request) -> Response:
        return await self._replaying.replay(request, self._recording)

    async def aclose(self) -> None:
        await self._replaying.aclose()


def _faults(api: ProbeApi, answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield what the SDK makes of an answer that it should not."""
    if not answer.is_good and answer.status < 400:
        return  # another form of answer than was requested: that is reported as such
    library = library_for(None)
    with (
        warnings.catch_warnings(),
        library.Client(transport=SyncFace(_Recorded(answer.recording), library)) as client,
    ):
        warnings.simplefilter("ignore")  # about models that are deprecated
        try:
            found = api.read(client, answer)
        except Exception as error:
            # whatever it raises is the finding: SDKs fail in KeyError and pydantic's errors too
            if answer.is_good or _status(error) != answer.status:
                yield "PR150", f"{api.sdk}: {type(error).__name__}: {_short(str(error))}"
            return
    if answer.is_good:
        yield from (("PR151", f"{api.sdk}: {said}") for said in _differences(found, answer))
    else:
        yield "PR150", f"{api.sdk}: no exception at status {answer.status}"


def _status(error: Exception) -> int | None:
    """Return the status that an exception of an SDK is about: openai's and anthropic's,
    google-genai's, botocore's.
    """
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    of_aws = whole(getattr(error, "response", None), "ResponseMetadata", "HTTPStatusCode")
    return found if isinstance(found, int) else of_aws


def _differences(found: SdkReading, answer: ProbeAnswer) -> Iterable[str]:
    if found.text != answer.text:
        yield f"text {_short(found.text)!r} in place of {_short(answer.text)!r}"
    items = [item for item in answer.first_choice if item.kind == "tool_call"]
    calls = [(item.name, json_or_text(item.arguments or "")) for item in items]
    if found.calls != calls:
        yield f"calls {_short(str(found.calls))} in place of {_short(str(calls))}"
    usage = answer.usage
    counted = (usage.input_tokens, usage.output_tokens) if usage else (None, None)
    if found.tokens != counted and None not in counted:
        yield f"tokens {found.tokens} in place of {counted}"


def json_or_text(text: Any) -> Any:
    """Return the arguments of a call as JSON; as they are if they are none."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def openai_client(http: Any) -> Any:
    """Return a client of openai-python over an HTTP client."""
    openai = importlib.import_module("openai")
    return openai.OpenAI(base_url=f"{BASE}/v1", api_key="none", max_retries=0, http_client=http)
