"""Writes `docs/lint.md` from the rules: `python -m tests.lint_docs`."""

from __future__ import annotations

from recorder.lint import PLACES_LIMIT, PROFILES, RULES, Rule
from recorder.lint.report import rule_row
from recorder.lint.sse import CODEX_SILENCE_NS, PROXY_SILENCE_NS
from tests.corpus import ROOT

PAGE = ROOT / "docs" / "lint.md"

PROXY_S, CODEX_S = PROXY_SILENCE_NS // 10**9, CODEX_SILENCE_NS // 10**9

INTRO = f"""\
# Lint

`recorder lint` judges recorded streams by the rules of their protocol. It says what is wrong, at which events, and
which client it breaks, in the words that the client says then.

```sh
recorder lint latest                            # a session
recorder lint latest:2 --profile codex          # one exchange of it, as Codex would take it
recorder lint body.sse run.sse.jsonl --json     # files: whatever `recorder import` reads
recorder lint --list --profile sdk              # the rules
```

The positions of events are those of `recorder events`. It ends with 4 if there is an error or a warning, with 0 if
there are only notes, with 3 if there was nothing to judge.

## Profiles

| profile | of | says |
|---|---|---|
| `openai` | Responses | the API as OpenAI speaks it; judges such exchanges if no profile is named |
| `codex` | Responses | what Codex CLI needs of it |
| `sdk` | Responses | what the OpenAI SDKs need of it |
| `chat` | Chat Completions | the API as OpenAI speaks it, and its SDKs |
| `anthropic` | Anthropic Messages | the API as Anthropic speaks it, and its SDKs |
| `gemini` | Gemini | the API as Google speaks it, and its SDKs |

An **error** is what a client of the profile fails on, or loses content by, or what the protocol forbids; a **warning**
breaks some clients; a **note** is worth knowing. A fault is named where it begins, and what follows from it is mostly
not reported again; two rules may name the same place if they are about different clients (a long silence is ST007 to
proxies and ST008 to Codex). Where bytes were not kept, or the client or the recorder left first, nothing is said to be
missing there.

A file whose content does not say which API it is of is not judged: `recorder import --dialect NAME` enters it under the
right one, and `--request FILE` with what was asked.

## A gateway beside the original

There is no check of a live server: the proxy is in between anyway. Send the same request through the recorder to the
original and to the gateway, each into a session of its own, and compare the recordings:

```sh
recorder serve --upstream openai=https://api.openai.com --upstream gateway=http://127.0.0.1:4000/v1 &
ASK='{{"model": "gpt-5", "input": "Roll two dice.", "stream": true}}'
for to in original/openai through/gateway; do
  curl -sN "http://127.0.0.1:8787/s/${{to%/*}}/${{to#*/}}/v1/responses" -o /dev/null \\
    -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" -d "$ASK"
done
recorder lint original                          # what the original does itself is no fault of the gateway
recorder lint latest                            # the gateway, as OpenAI speaks
recorder lint latest --profile codex            # … and as far as Codex minds
recorder diff original through --only events    # which events are missing, more, or in another order
recorder diff original through --only tools,usage,timing
```

`lint` says whether clients can read the gateway, `diff` what it changes: a model answers differently each time, so of
the answer the events, tools and tokens are worth comparing. In tests, `assert_lints` raises with the same report.

```python
from recorder.testing import assert_lints


def test_the_gateway_speaks_to_codex():
    assert_lints("tests/gateway.sse.jsonl", profile="codex", ignore=["RS050"])
```

## What is measured

What the rules quote of the SDKs for Python (openai 3.52, anthropic 2.11, google-genai 3.4) is what these raise when
they are given the broken stream: a test of the project does so for every error that a rule names. What is quoted of
Codex CLI 0.169 it said when it was given such streams; it is a program of its own, and no test runs it. What
openai-node, the SDK for TypeScript of Anthropic, the SDK for JavaScript of Google, Gemini CLI, the Vercel AI SDK
(JavaScript) and openai-java say is as their source has it: the tests run nothing but Python.

Another test changes one field after another in recorded streams (takes it away, makes it null, puts another kind of
value or another name there) and lets the SDK read them. Where that raises, or hands on what its own types say cannot
be, `lint` has a finding. Not asked for is what the vendors themselves leave out: the `action` of a web search and the
`url` of its sources, `signature` of a block that begins, `web_fetch_requests`, and what a response only repeats of its
request.

Silence counts from {PROXY_S} s on for proxies and from {CODEX_S} s on
for Codex; imported bodies have no times, and so no silences.

## JSON

`--json` is an array of findings, `--jsonl` one a line; both are empty if nothing was found.

| key | |
|---|---|
| `session`, `exchange`, `exchange_id` | the session or file, the number of the exchange in it, and its id |
| `profile` | by which it was judged |
| `rule`, `severity`, `meaning`, `why`, `source` | the rule, as it stands below |
| `count` | how many places break it |
| `places` | the first {PLACES_LIMIT}: `pos`, the event (`null`: the whole exchange), and `said`, what stands there |

With `--list` it is an array of rules: `id`, `severity`, `meaning`, `why`, `source`, `profiles`.

## Rules

`HT` is HTTP, `ST` the stream as such, `RS` Responses, `CH` Chat Completions, `AN` Anthropic Messages, `GE` Gemini.
"""


def page() -> str:
    return "\n".join([INTRO, *map(_section, RULES)])


def _section(rule: Rule) -> str:
    row = rule_row(rule)
    profiles = "all profiles" if len(rule.profiles) == len(PROFILES) else ", ".join(f"`{p}`" for p in row["profiles"])
    return f"### {rule.id}\n\n**{rule.meaning}** ({rule.severity}; {profiles})\n\n{rule.why}\n\n*{rule.source}*\n"


if __name__ == "__main__":
    PAGE.write_text(page())
