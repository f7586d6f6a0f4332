"""aider and llm: programs for a shell that print their answer as text."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.real_clients.client import SLOW_PROMPT, TALK_PROMPT, Client, Said

_AIDER = (
    *(
        "aider",
        "--no-git",
        "--yes-always",
        "--no-check-update",
        "--no-show-model-warnings",
        "--no-pretty",
    ),
    *(
        "--no-show-release-notes",
        "--analytics-disable",
        "--no-gitignore",
        "--no-suggest-shell-commands",
    ),
)
_LLM = ("llm", "--no-log", "-u")
_LLM_PROMPT = "What is the weather in Paris and in Bern?"
_LLM_TOOL = (
    "def get_weather(city: str, unit: str) -> str:\n    return f'{len(city)} degrees in {city}'\n"
)


def read_aider(stdout: str, stderr: str) -> Said:
    """The answer stands between the lines about the chat and the line about tokens, which rounds."""
    begin = stdout.find("A stream is a letter")
    end = stdout.find("\nTokens:")
    return Said(stdout[begin:end].strip() if begin >= 0 else "")


def read_llm(stdout: str, stderr: str) -> Said:
    """With `-u` each request of a loop has its line of usage on stderr."""
    used = [
        [int(count.replace(",", "")) for count in counts]
        for counts in re.findall(r"Token usage: ([\d,]+) input, ([\d,]+) output", stderr)
    ]
    return Said(stdout.strip(), sum(each[0] for each in used), sum(each[1] for each in used))


def read_llm_anthropic(stdout: str, stderr: str) -> Said:
    """As Anthropic does, it leaves cached tokens out of the input, and says nothing of them."""
    return read_llm(stdout, stderr)._replace(input="input_tokens - cache_read_input_tokens")


def _aider(name: str, model: str, wiring: str) -> Client:
    # its reminder of others has a keyword of the demo
    ask = (*_AIDER, "--edit-format", "whole", "--model", model)
    return Client(
        f"aider, {name}",
        "0.86.2",
        ("aider-chat==0.86.2",),
        loop=(*ask, "--message", TALK_PROMPT),
        slow=(*ask, "--message", SLOW_PROMPT),
        prompt=TALK_PROMPT,
        shows=(),
        read=read_aider,
        wiring=(wiring,),
        waived={
            "grouped": "each message is a session: it sends its history rewritten (`--session` groups it)",
            "tokens": "it prints them rounded",
        },
    )


def _llm(name: str, model: str, wiring: str, read: Callable[[str, str], Said]) -> Client:
    return Client(
        f"llm, {name}",
        "0.36",
        ("llm==0.36", "llm-anthropic==0.30"),
        loop=(*_LLM, "-m", model, "--functions", _LLM_TOOL, _LLM_PROMPT),
        slow=(*_LLM, "-m", model, SLOW_PROMPT),
        prompt=_LLM_PROMPT,
        shows=("degrees in Paris",),
        read=read,
        wiring=(wiring,),
    )


SHELLS = (
    _aider("openai", "openai/gpt-4o", "openai"),
    _aider("anthropic", "anthropic/claude-sonnet-4-5", "anthropic"),
    _llm("openai", "gpt-4o-mini", "openai", read_llm),
    _llm("anthropic", "claude-sonnet-4.5", "anthropic", read_llm_anthropic),
)
