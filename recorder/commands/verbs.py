"""The verbs of the command line with their help texts."""

from __future__ import annotations

VERBS = {
    "serve": "Record: a proxy between clients and streaming APIs.",
    "run": "Run a command and record its requests, or answer them from a recording.",
    "sessions": "List what was recorded.",
    "show": "Show a session as a conversation, now or at any moment of it.",
    "events": "Show the raw events of a session.",
    "tail": "Follow what is being recorded, in all sessions.",
    "query": "Query the log in SQL: one read-only statement.",
    "mcp": "Let an agent read the log: the tools sessions, show, events, query, lint, diff.",
    "ui": "Look at recordings in a browser.",
    "replay": "Play a session to stdout at its original timing.",
    "mock": "Serve recordings to clients.",
    "diff": "Compare two recordings: request, answer, tools, usage, timing, events.",
    "lint": "Check streams against their protocol: what is wrong, and which client it breaks.",
    "probe": "Prove that a gateway speaks an API: a table of what passed, and which client a fault breaks.",
    "usage": "Sum the tokens: by model, day, session, client, tool.",
    "prices": "Manage the prices of tokens: take them from a package and a file, list them.",
    "cache": "Show why the prompt cache missed: what could have come from it, and what broke it.",
    "demo": "Record, show, count and replay against a built-in upstream: no key, no network.",
    "import": "Add stored streams, and exports of other databases, to the log.",
    "export": "Write a session to stdout, for `recorder import` or as bare bodies.",
    "otlp": "Send the log to a collector of OpenTelemetry, as traces and metrics.",
    "cassette": "Check cassettes, and rewrite them in their canonical form.",
    "verify": "Prove that the log is unchanged and complete.",
    "doctor": "Find problems of this installation, and print how to solve them.",
    "schema": "Print the JSON Schema of what a command writes with --json.",
    "completion": "Print the script that lets bash, zsh or fish complete commands and names of sessions.",
    "env": "Print the settings that point a client here.",
    "db": "Manage the database: path, upgrade, rebuild, recover, backup, copy, archive, purge.",
}
