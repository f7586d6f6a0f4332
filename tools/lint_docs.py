"""Writes `docs/lint.md` from the rules: `python -m tools.lint_docs`."""

from __future__ import annotations

from recorder.lint import PLACES_LIMIT, PROFILES, RULES, Rule
from recorder.lint.report import rule_row
from recorder.lint.sse import CODEX_SILENCE_NS, PROXY_SILENCE_NS
from tests.support.corpus import ROOT

PAGE = ROOT / "docs" / "lint.md"

PROXY_S, CODEX_S = PROXY_SILENCE_NS // 10**9, CODEX_SILENCE_NS // 10**9

INTRO = f"""\
# Lint

`recorder lint` judges recorded streams by the rules of their protocol. It says what is wrong, at which events, and
which client it breaks, with the error message of that client.

```sh
recorder lint latest                            # a session
recorder lint latest:2 --profile codex          # one exchange of it, as Codex would take it
recorder lint body.sse run.sse.jsonl --json     # files: whatever `recorder import` reads
recorder lint --list --profile sdk              # the rules
```

Rules that do not matter to you are left out, and warnings need not fail a build:

```sh
recorder lint latest --ignore CH005 --ignore ST007 --fail-on error
```

In `recorder.toml` that is `ignore = ["CH005", "ST007"]` and `fail-on = "error"` under `[lint]`. `recorder probe` has
the same two options, under `[probe]`.

The positions of events are those of `recorder events`. The exit code is 4 if there is an error or a warning, 0 if there
are only notes, 3 if there was nothing to judge.

## Profiles

| profile | API | whose rules |
|---|---|---|
| `openai` | Responses | the API as OpenAI speaks it; the default for this API |
| `codex` | Responses | what Codex CLI needs of it |
| `sdk` | Responses | what the OpenAI SDKs need of it |
| `chat` | Chat Completions | the API as OpenAI speaks it, and its SDKs |
| `anthropic` | Anthropic Messages | the API as Anthropic speaks it, and its SDKs |
| `gemini` | Gemini | the API as Google speaks it, and its SDKs |

An **error** makes a client of the profile fail or lose content, or the protocol forbids it. A **warning** breaks some
clients. A **note** is worth knowing. A fault is reported where it begins; its consequences are mostly not reported
again. Two rules can report the same place if they are about different clients (a long silence is ST007 for proxies
and ST008 for Codex). If bytes are missing from the recording, or the client or the recorder left first, no rule
reports what is missing there.

A turn over WebSocket is judged by the same rules, but for those about HTTP and server-sent events: a message has no
`event:` line, pings keep the connection alive, and an `error` in band has no number. The connection itself is not
judged; `recorder show` says who closed it, and what of it could not be read.

A file whose content does not show its API is not judged: `recorder import --dialect NAME` imports it with the right
API, and `--request FILE` adds its request.

## A gateway beside the original

`lint` does not check a live server: the proxy records it. Send the same request through the recorder to the
original and to the gateway, each into a session of its own, and compare the recordings:

```sh
recorder serve --upstream openai=https://api.openai.com --upstream gateway=http://127.0.0.1:4000/v1 &
ASK='{{"model": "gpt-5", "input": "Roll two dice.", "stream": true}}'
for to in original/openai through/gateway; do
  curl -sN "http://127.0.0.1:8787/s/${{to%/*}}/${{to#*/}}/v1/responses" -o /dev/null \\
    -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" -d "$ASK"
done
recorder lint original                          # what the original does itself is not a fault of the gateway
recorder lint latest                            # the gateway, as OpenAI speaks
recorder lint latest --profile codex            # … and as far as Codex minds
recorder diff original through --only events    # which events are missing, more, or in another order
recorder diff original through --only tools,usage,timing
```

`lint` shows whether clients can read the gateway's streams, and `diff` shows what it changes. A model answers
differently each time, so compare events, tools and tokens, not texts. In tests, `assert_lints` raises with the same
report.

```python
from recorder.testing import assert_lints


def test_the_gateway_speaks_to_codex():
    assert_lints("tests/gateway.sse.jsonl", profile="codex", ignore=["RS050"])
```

## What is measured

The errors that rules quote of the SDKs for Python (openai 3.52, anthropic 2.11, google-genai 3.4) are measured: for
every error that a rule names, a test gives the broken stream to the SDK. The messages of Codex CLI 0.169, a separate
program, were measured with such streams; no test runs it. The errors of openai-node, Anthropic's SDK for TypeScript,
Google's SDK for JavaScript, Gemini CLI, the Vercel AI SDK (JavaScript) and openai-java were read in their source: the
tests run only Python.

Another test changes one field after another in recorded streams (removes it, makes it null, gives it a value of
another type or another name) and lets the SDK read them. If the SDK raises, or returns a value that its own types
exclude, `lint` must have a finding. Exempt are the fields that the vendors themselves leave out: the `action` of a
web search and the `url` of its sources, `signature` of a block that begins, `web_fetch_requests`, and fields that a
response only repeats from its request.

A silence is reported from {PROXY_S} s on for proxies and from {CODEX_S} s on for Codex. Imported bodies have no
times, so they have no silences.

## JSON

`--json` is an array of findings, `--jsonl` one a line; both are empty if nothing was found.

| key | |
|---|---|
| `session`, `exchange`, `exchange_id` | the session or file, the number of the exchange in it, and its id |
| `profile` | the profile whose rules were applied |
| `rule`, `severity`, `meaning`, `why`, `source` | the rule, as listed below |
| `count` | how many places break it |
| `places` | the first {PLACES_LIMIT}: `pos`, the event (`null`: the whole exchange), and `said`, the content there |

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
