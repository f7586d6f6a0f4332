"""Writes `docs/probe.md` from the cases and the rules: `python -m tools.probe_docs`."""

from __future__ import annotations

from recorder.probe import APIS
from recorder.probe.cases import bound
from recorder.probe.rules import RULES
from recorder.probe.runner import BODY_LIMIT_BYTES, REQUEST_FACTOR, SILENCE_S
from recorder.probe.sdks import SDKS
from tests.support.corpus import ROOT

PAGE = ROOT / "docs" / "probe.md"

INTRO = f"""\
# Probe

`recorder probe` proves that a gateway speaks an API. It sends a fixed set of requests to it, records and judges the
answers, and prints a table: what passed, what is wrong, and which client that breaks.

```sh
recorder demo --serve                                                # an upstream to try it on, in another shell
recorder probe http://127.0.0.1:8900 --api openai-responses
recorder probe http://127.0.0.1:4000/v1 --api openai-chat --key-env GATEWAY_KEY --model gpt-5-mini
recorder probe http://127.0.0.1:4000 --api anthropic --only text --only forced-tool
recorder probe http://127.0.0.1:4000 --api gemini --dry-run          # what it would send, and what it may cost
```

The URL is the base URL of the gateway as clients are given it, with `/v1` or without. Each answer is judged three
times, and paid for once:

* by the rules of [`recorder lint`](lint.md): the form of the stream, whatever was requested;
* by what was requested: the rules `PR…` below;
* by the official SDK, if it is installed: it reads the recorded bytes from a replay in the same process, and must read
  what was sent.

All of it is in the log, as a session `probe-…`: `recorder show`, `recorder lint`, `recorder diff` and `recorder export`
work on it as on any other. A number such as `(:3)` in the report is that of the exchange in it.

## Keys and costs

Without `--key-env NAME` no key of yours is sent, but the word `none` in its place: a variable such as `OPENAI_API_KEY`
is never read unless it is named, since the address may be anybody's. The key is in no log and in no report.

Each request limits the tokens of its answer. Before the first one, the number of requests and the bound of tokens are
printed, and the price if the log has one for the model (`recorder prices update`). `--dry-run` prints only that.

{{costs}}

## Cases

Each is sent streamed and plain where both make sense. A dash: the API does not have it.

{{cases}}

A case is **passed**, **faulty**, or **unsupported**: the gateway refused what is optional, with an error of the API's
form and status 400, 404, 405, 422 or 501. A refusal of anything else is a fault, and so is a failure (5xx).

What a model answers is its own: a small model may call one tool where two were asked for (PR041), or not reason
(PR120). These are warnings. `--only` repeats a case, and `--model` takes another model.

## The exit code

0: nothing, or notes only. 4: an error or a warning. 1: the gateway cannot be reached. 2: the call makes no sense.
`--json` and `--jsonl` print each case with its findings, `--junit FILE` writes a test for each case and mode, which is
skipped if it is unsupported.

## Limits

A request is given up if nothing comes for {SILENCE_S:.0f} s (`--timeout`), after {REQUEST_FACTOR} times that, or
after {BODY_LIMIT_BYTES >> 20} MiB: a gateway that hangs is a finding, and not a hang. The requests are sent one after
another; `stop` and `resume` leave in the middle of a stream, as a client does that is stopped.

The probe is [tested with faults](probe-faults.md) planted in a gateway, and with [LiteLLM](probe-litellm.md).

## Rules

The rules of `recorder lint` are on [its page](lint.md).
"""


def page() -> str:
    """The page as it is to be."""
    lines = [INTRO.replace("{costs}", _costs()).replace("{cases}", _cases())]
    for rule in RULES:
        source = rule.source[0].upper() + rule.source[1:]
        lines += [f"### {rule.id} · {rule.severity}", "", rule.meaning, "", f"Why: {rule.why} Source: {source}.", ""]
    return "\n".join(lines)


def _costs() -> str:
    rows = ["| API | requests | output tokens, at most | model, unless one is given | SDK |", "|---|---|---|---|---|"]
    for name, api in APIS.items():
        most = bound([(case, mode) for case in api.cases for mode in case.modes], api.model)
        cells = (f"`{name}`", most.requests, f"{most.output_tokens:,}", f"`{api.model}`", f"`{SDKS[name].package}`")
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _cases() -> str:
    names = dict.fromkeys(case.name for api in APIS.values() for case in api.cases)
    rows = [f"| case | what | {' | '.join(f'`{name}`' for name in APIS)} |", f"|---|---|{'---|' * len(APIS)}"]
    for name in names:
        found = [next((case for case in api.cases if case.name == name), None) for api in APIS.values()]
        first = next(case for case in found if case is not None)
        remarks = [*(["optional"] if first.is_optional else []), *(["needs a key"] if first.needs_key else [])]
        title = f"{first.title} ({', '.join(remarks)})" if remarks else first.title
        cells = ["–" if case is None else ", ".join(case.modes) for case in found]
        rows.append(f"| `{name}` | {title} | {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
