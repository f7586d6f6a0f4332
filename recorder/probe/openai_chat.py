"""The cases of OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Callable

from recorder.probe import checks
from recorder.probe.cases import TEXT_TOKENS, Case, Json, ProbeApi, ProbeCall, ProbeStep, Progress

_TEXT = "Say in one sentence what a letter is."


def _create(body: Json, most_tokens: int = TEXT_TOKENS) -> Callable[[Progress], ProbeCall]:
    """Return what makes the request of a completion."""

    def make(progress: Progress) -> ProbeCall:
        stream: Json = {"stream": True, "stream_options": {"include_usage": True}} if progress.is_streamed else {}
        whole = {"model": progress.model, "max_completion_tokens": most_tokens, **body, **stream}
        return ProbeCall("POST", "/v1/chat/completions", whole)

    return make


API = ProbeApi(
    "openai-chat",
    "gpt-5-mini",
    lambda key: {"authorization": f"Bearer {key}"},
    (
        Case(
            "text",
            "A short answer",
            (
                ProbeStep(
                    _create({"messages": [{"role": "user", "content": _TEXT}]}),
                    (checks.answers, checks.says, checks.counts),
                    TEXT_TOKENS,
                ),
            ),
        ),
    ),
)
