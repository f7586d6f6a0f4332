"""The verbs of the command line and what each is for."""

from __future__ import annotations

VERBS = {
    "serve": "Record: a proxy between clients and streaming APIs.",
    "sessions": "List what was recorded.",
    "events": "Show the raw events of a session.",
    "replay": "Play a session to stdout at its original timing.",
    "demo": "Record, list and replay against a built-in upstream: no key, no network.",
    "env": "Print the settings that point a client here.",
    "db": "Keep the database: path, upgrade, recover.",
}
