"""The reference of the cases and rules of `recorder probe`, made of both; `tools.reference` writes
it.
"""

from __future__ import annotations

from recorder.probe.apis import APIS
from recorder.probe.cases import bound
from recorder.probe.rules import RULES

INTRO = """\
# Cases and rules of the probe

[Probe](../probe.md) explains what is sent and how it is judged.

## Costs

{costs}

## Cases

Each is sent streamed and plain where both exist. A dash: the API does not have it.

{cases}

## Rules

An answer is judged by the [rules of lint](lint-rules.md) too.
"""


def page() -> str:
    """Return the page, with a section for each rule."""
    lines = [INTRO.replace("{costs}", _costs()).replace("{cases}", _cases())]
    for rule in RULES:
        source = rule.source[0].upper() + rule.source[1:]
        lines += [
            f"### {rule.id} · {rule.severity}",
            "",
            rule.meaning,
            "",
            f"Why: {rule.why} Source: {source}.",
            "",
        ]
    return "\n".join(lines)


def _costs() -> str:
    rows = [
        "| API | requests | output tokens, at most | model, unless one is given | SDK |",
        "|---|---|---|---|---|",
    ]
    for name, api in APIS.items():
        most = bound([(case, mode) for case in api.cases for mode in case.modes], api.model)
        cells = (
            f"`{name}`",
            most.requests,
            f"{most.output_tokens:,}",
            f"`{api.model}`",
            f"`{api.sdk}`",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _cases() -> str:
    names = dict.fromkeys(case.name for api in APIS.values() for case in api.cases)
    rows = [
        f"| case | what | {' | '.join(f'`{name}`' for name in APIS)} |",
        f"|---|---|{'---|' * len(APIS)}",
    ]
    for name in names:
        found = [
            next((case for case in api.cases if case.name == name), None) for api in APIS.values()
        ]
        first = next(case for case in found if case is not None)
        remarks = [
            *(["optional"] if first.is_optional else []),
            *(["needs a key"] if first.needs_key else []),
        ]
        title = f"{first.title} ({', '.join(remarks)})" if remarks else first.title
        cells = ["–" if case is None else ", ".join(case.modes) for case in found]
        rows.append(f"| `{name}` | {title} | {' | '.join(cells)} |")
    return "\n".join(rows)
