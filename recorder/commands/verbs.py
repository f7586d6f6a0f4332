"""The verbs of the command line and what each is for."""

from __future__ import annotations

VERBS = {
    "serve": "Record: a proxy between clients and streaming APIs.",
    "run": "Run a command and record what it asks, or answer it from a recording.",
    "sessions": "List what was recorded.",
    "show": "Show a session as a conversation, now or at any moment of it.",
    "events": "Show the raw events of a session.",
    "tail": "Follow what is recorded just now, in all sessions.",
    "query": "Ask in SQL: one statement, which can only read.",
    "replay": "Play a session to stdout at its original timing.",
    "mock": "Serve recordings to clients.",
    "diff": "Say how two recordings differ: request, answer, tools, usage, timing, events.",
    "lint": "Judge streams by their protocol: what is wrong, and which client it breaks.",
    "usage": "Sum the tokens: by model, day, session, client, tool.",
    "demo": "Record, show, count and replay against a built-in upstream: no key, no network.",
    "import": "Enter stored streams, and exports of other databases.",
    "export": "Write a session to stdout, for `recorder import` or as bare bodies.",
    "cassette": "Check cassettes, and bring them into their canonical form.",
    "verify": "Prove that the log is as it was recorded, and that nothing is missing.",
    "doctor": "Say what is wrong here, and what to do.",
    "env": "Print the settings that point a client here.",
    "db": "Keep the database: path, upgrade, rebuild, recover, backup, copy, purge.",
}
