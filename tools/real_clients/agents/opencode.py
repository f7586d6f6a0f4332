"""opencode with two providers, and with a sub-agent."""

from __future__ import annotations

import json

from tools.real_clients.client import AGENT_PROMPT, PROMPT, SLOW_PROMPT, SUB_PROMPT, Client, Said

_VERSION = "1.18.33"
_PACKAGES = (f"opencode-ai@{_VERSION}",)
_RUN = ("opencode", "run", "--format", "json")
_SENT = '"{}"'  # it puts quotes around an argument that has spaces


def read(stdout: str, stderr: str) -> Said:
    """The lines of `opencode run --format json`: tokens a step. It leaves out its title request."""
    parts = [json.loads(line)["part"] for line in stdout.splitlines() if line.startswith("{")]
    text = [part["text"] for part in parts if part["type"] == "text"][-1]
    tokens = [part["tokens"] for part in parts if part["type"] == "step-finish"]
    return Said(
        text,
        sum(each["input"] + each["cache"]["read"] + each["cache"]["write"] for each in tokens),
        sum(each["output"] + each["reasoning"] for each in tokens),
        "request_model NOT LIKE '%nano%' AND request_model NOT LIKE '%haiku%'",
    )


def _client(name: str, model: str, wiring: str, env: dict[str, str]) -> Client:
    run = (*_RUN, "-m", model)
    return Client(
        f"opencode, {name}",
        _VERSION,
        _PACKAGES,
        loop=(*run, PROMPT),
        prompt=_SENT.format(PROMPT),
        again=(*run, "-c", "And now a greeting."),
        slow=(*run, SLOW_PROMPT),
        read=read,
        wiring=(wiring,),
        env=env,
    )


_OPENAI, _ANTHROPIC = "openai/gpt-5", "anthropic/claude-sonnet-4-5"

OPENCODE = (
    _client("openai", _OPENAI, "vercel", {"ANTHROPIC_API_KEY": "", "GEMINI_API_KEY": ""}),
    _client("anthropic", _ANTHROPIC, "vercel", {"OPENAI_API_KEY": "", "GEMINI_API_KEY": ""}),
    Client(
        "opencode, sub-agent",
        _VERSION,
        _PACKAGES,
        loop=(*_RUN, "-m", _OPENAI, AGENT_PROMPT),
        slow=(),
        prompt=_SENT.format(AGENT_PROMPT),
        shows=("task", f"› {SUB_PROMPT}"),
        read=read,
        wiring=("vercel",),
        env={"ANTHROPIC_API_KEY": "", "GEMINI_API_KEY": ""},
        own_ids=r"ses_\w+",
        waived={
            "interrupted": "as in the rows above",
            "tokens": "it reports its own, not those of its sub-agent",
        },
    ),
)
