"""The reference of the faults that the probe is tested with; `tools.reference` writes it."""

from __future__ import annotations

from recorder.lint.linter import RULES
from recorder.probe.rules import BY_ID
from tests.support.probe.faults import FAULTS, PLANTED

INTRO = f"""\
# What the probe is tested with

In the tests, {len(PLANTED)} gateways stand in front of the demo upstream. Each breaks its answers in one way; most
were seen in gateways. `recorder probe` must find each of them by the rule that is about it, and nothing in the demo
upstream itself. [LiteLLM](../probe-litellm.md) is a gateway that was not made for this.

The rules `PR…` are those of [the probe](probe-cases.md), all others those of [lint](lint-rules.md). A fault may break
other rules too: an answer without its end has no usage either.
"""

HEAD = "| what the gateway does | found in the case | by the rule |"
TITLES = {
    "openai-responses": "OpenAI Responses",
    "openai-chat": "OpenAI Chat Completions",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
    "ollama": "Ollama",
    "bedrock-converse": "Bedrock's Converse",
    "bedrock-invoke": "Bedrock's InvokeModel, with Claude",
}


def page() -> str:
    """Return the page, with a row for each fault."""
    meanings = {rule.id: rule.meaning for rule in RULES}
    meanings |= {name: rule.meaning for name, rule in BY_ID.items()}
    lines = [INTRO]
    for api, faults in FAULTS.items():
        lines += [
            f"## {TITLES[api]}",
            "",
            "| what the gateway does | found in the case | by the rule |",
            "|---|---|---|",
        ]
        for fault in faults:
            rules = "; ".join(f"{each}: {meanings[each]}" for each in fault.rules.split())
            lines.append(f"| {fault.says} | `{fault.cases}` | {rules} |")
        lines.append("")
    return "\n".join(lines)
