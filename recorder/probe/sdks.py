"""The official SDKs as readers of recorded answers: the bytes are replayed in this process, so nothing is paid twice.

An answer that the SDK cannot read, or reads otherwise than the log does, is a fault. What the SDK is asked for does not
matter: the replay answers with the one recording. Each is imported only where it reads, and need not be installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from recorder.lint.faults import Fault
from recorder.lint.rule import Hit
from recorder.model.recording import Recording
from recorder.probe.answer import ProbeAnswer
from recorder.probe.judge import Reader
from recorder.proxy.http.messages import Request, Response
from recorder.replay.matching import Matcher
from recorder.replay.pace import THREAD
from recorder.replay.transport import ReplayTransport
from recorder.testing.libraries import SyncFace, library_for

BASE = "http://probe.invalid"  # is never asked
SHOWN = 160  # characters of a text or an exception in a fault
_QUESTION = "Hello"


class SdkReading(NamedTuple):
    """What an SDK makes of an answer."""

    text: str
    calls: list[tuple[str | None, Any]]
    tokens: tuple[int | None, int | None]  # of input and output, as the provider counts


class Sdk(NamedTuple):
    """An SDK that can read the answers of an API."""

    package: str
    read: Callable[[Any, ProbeAnswer], SdkReading]  # by an HTTP client, which gives that answer to everything


def reader_for(api: str) -> tuple[str, Reader | None]:
    """Return the name of the SDK for an API, and the check that reads answers by it; None if it is not installed."""
    sdk = SDKS[api]
    try:
        is_there = importlib.util.find_spec(sdk.package) is not None
    except ModuleNotFoundError:  # of a package in a namespace that is not there
        is_there = False
    return sdk.package, (lambda answer: _faults(sdk, answer)) if is_there else None


class _Recorded:
    """A transport that answers everything with one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._replaying = ReplayTransport(Matcher([recording]), speed=None, clock=THREAD)

    async def handle_async_request(self, request: Request) -> Response:
        return await self._replaying.replay(request, self._recording)

    async def aclose(self) -> None:
        await self._replaying.aclose()


def _faults(sdk: Sdk, answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield what the SDK makes of an answer that it should not."""
    if not answer.is_good and answer.status < 400:
        return  # another form of answer than was requested: that is reported as such
    library = library_for(None)
    with warnings.catch_warnings(), library.Client(transport=SyncFace(_Recorded(answer.recording), library)) as client:
        warnings.simplefilter("ignore")  # about models that are deprecated
        try:
            found = sdk.read(client, answer)
        except Exception as error:  # whatever it raises is the finding: SDKs fail in KeyError and pydantic's errors too
            if answer.is_good or _status(error) != answer.status:
                yield "PR150", Hit(None, f"{sdk.package}: {type(error).__name__}: {_short(str(error))}")
            return
    if answer.is_good:
        yield from (("PR151", Hit(None, f"{sdk.package}: {said}")) for said in _differences(found, answer))
    else:
        yield "PR150", Hit(None, f"{sdk.package}: no exception at status {answer.status}")


def _status(error: Exception) -> int | None:
    """Return the status that an exception of an SDK is about: openai's and anthropic's, or google-genai's."""
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    return found if isinstance(found, int) else None


def _differences(found: SdkReading, answer: ProbeAnswer) -> Iterable[str]:
    if found.text != answer.text:
        yield f"text {_short(found.text)!r} in place of {_short(answer.text)!r}"
    calls = [(item.name, _json(item.arguments or "")) for item in answer.first_choice if item.kind == "tool_call"]
    if found.calls != calls:
        yield f"calls {_short(str(found.calls))} in place of {_short(str(calls))}"
    usage = answer.usage
    counted = (usage.input_tokens, usage.output_tokens) if usage else (None, None)
    if found.tokens != counted and None not in counted:
        yield f"tokens {found.tokens} in place of {counted}"


def _json(text: Any) -> Any:
    """Return the arguments of a call as JSON; as they are if they are none."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"


def _openai(http: Any) -> Any:
    openai = importlib.import_module("openai")
    return openai.OpenAI(base_url=f"{BASE}/v1", api_key="none", max_retries=0, http_client=http)


def _responses(http: Any, answer: ProbeAnswer) -> SdkReading:
    api = _openai(http).responses
    if answer.before:  # the rest of a stream
        *_, last = filter(_is_end, api.retrieve("any", stream=True, starting_after=0))
        response = last.response
    elif answer.is_streamed:
        with api.stream(model="any", input=_QUESTION) as stream:
            *_, last = filter(_is_end, stream)
        response = last.response
    else:
        response = api.create(model="any", input=_QUESTION)
    calls = [(item.name, _json(item.arguments)) for item in response.output if item.type == "function_call"]
    usage = response.usage
    return SdkReading(response.output_text, calls, (usage.input_tokens, usage.output_tokens))


def _is_end(event: Any) -> bool:
    return event.type in ("response.completed", "response.incomplete", "response.failed")


def _chat(http: Any, answer: ProbeAnswer) -> SdkReading:
    openai = importlib.import_module("openai")
    api = _openai(http).chat.completions
    asked: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": _QUESTION}]}
    if answer.is_streamed:
        try:
            with api.stream(**asked) as stream:
                completion = stream.get_final_completion()
        except openai.LengthFinishReasonError as error:  # a limit was met, as the case may want
            completion = error.completion
    else:
        completion = api.create(**asked)
    message, usage = completion.choices[0].message, completion.usage
    calls = [(call.function.name, _json(call.function.arguments)) for call in message.tool_calls or ()]
    tokens = (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
    return SdkReading(message.content or "", calls, tokens)


def _messages(http: Any, answer: ProbeAnswer) -> SdkReading:
    anthropic = importlib.import_module("anthropic")
    api = anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0, http_client=http).messages
    asked: dict[str, Any] = {
        "model": "any",
        "max_tokens": 1_024,
        "messages": [{"role": "user", "content": _QUESTION}],
    }
    if answer.is_streamed:
        with api.stream(**asked) as stream:
            message = stream.get_final_message()
    else:
        message = api.create(**asked)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    usage = message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return SdkReading(text, calls, (usage.input_tokens + cached, usage.output_tokens))


def _gemini(http: Any, answer: ProbeAnswer) -> SdkReading:
    genai = importlib.import_module("google.genai")
    options = {"base_url": BASE, "httpx_client": http}
    models = genai.Client(api_key="none", http_options=options).models
    asked = {"model": "any", "contents": _QUESTION}
    chunks = list(models.generate_content_stream(**asked)) if answer.is_streamed else [models.generate_content(**asked)]
    contents = [each.content for chunk in chunks for each in (chunk.candidates or ())[:1] if each.content]
    parts = [part for content in contents for part in content.parts or ()]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    usage = chunks[-1].usage_metadata
    put_out = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0) if usage else None
    return SdkReading(text, calls, (usage.prompt_token_count if usage else None, put_out))


SDKS: Mapping[str, Sdk] = {
    "openai-responses": Sdk("openai", _responses),
    "openai-chat": Sdk("openai", _chat),
    "anthropic": Sdk("anthropic", _messages),
    "gemini": Sdk("google.genai", _gemini),
}
