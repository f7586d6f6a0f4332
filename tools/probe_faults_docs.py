"""Writes `docs/probe-faults.md` from the planted faults: `python -m tools.probe_faults_docs`."""

from __future__ import annotations

from recorder.lint import RULES
from recorder.probe.rules import BY_ID
from tests.support.corpus import ROOT
from tests.support.probe.faults import FAULTS, PLANTED

PAGE = ROOT / "docs" / "probe-faults.md"

INTRO = f"""\
# What the probe is tested with

A probe is as good as the faults that it finds. In the tests, {len(PLANTED)} gateways stand in front of the demo
upstream; each breaks its answers in one way that was seen in gateways. `recorder probe` must find each of them by the
rule that is about it, and nothing in the demo upstream itself. [LiteLLM](probe-litellm.md) is a gateway that was not
made for this.

A rule `PR…` is on the page of [the probe](probe.md), all others on that of [lint](lint.md). A fault may break other
rules, too: an answer without its end has no usage either.
"""

HEAD = "| what the gateway does | found in the case | by the rule |"
TITLES = {
    "openai-responses": "OpenAI Responses",
    "openai-chat": "OpenAI Chat Completions",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
}


def page() -> str:
    """The page as it is to be."""
    meanings = {**{rule.id: rule.meaning for rule in RULES}, **{id: rule.meaning for id, rule in BY_ID.items()}}
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


if __name__ == "__main__":
    PAGE.write_text(page())
