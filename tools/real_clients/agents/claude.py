"""Claude Code in print mode, with a conversation that goes on, and with a sub-agent."""

from __future__ import annotations

import json

from tools.real_clients.client import AGENT_PROMPT, PROMPT, SLOW_PROMPT, SUB_PROMPT, Client, Said

_VERSION = "2.1.332"
_PACKAGES = (f"@anthropic-ai/claude-code@{_VERSION}",)
_PRINT = ("claude", "-p", "--output-format", "json", "--allowedTools", "Bash,Agent")


def read(stdout: str, stderr: str) -> Said:
    """The JSON of `claude -p`: of several results, as with a sub-agent in the background, the last
    one counts.
    """
    results = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    last = results[-1]
    used = list(last["modelUsage"].values())
    inputs = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return Said(
        last["result"],
        sum(model[name] for model in used for name in inputs),
        sum(model["outputTokens"] for model in used),
    )


CLAUDE = (
    Client(
        "Claude Code",
        _VERSION,
        _PACKAGES,
        loop=(*_PRINT, "--", PROMPT),
        again=(*_PRINT, "-c", "--", "And now a greeting."),
        slow=(*_PRINT, "--", SLOW_PROMPT),
        read=read,
        wiring=("claude",),
    ),
    Client(
        "Claude Code, sub-agent",
        _VERSION,
        _PACKAGES,
        loop=(*_PRINT, "--", AGENT_PROMPT),
        slow=(),
        prompt=AGENT_PROMPT,
        shows=("Agent", f"› {SUB_PROMPT}"),
        read=read,
        wiring=("claude",),
        waived={"interrupted": "as in the row above"},
    ),
)
