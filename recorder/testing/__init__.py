"""Recordings in tests: transports for `httpx.Client`, `httpx2.Client` and their async clients.

    transport = replay_transport(recorded_in("runs.db", "latest"))
    client = OpenAI(http_client=httpx2.Client(transport=transport))

Must not know: the command line.

`assert_lints`, `assert_cached` and `assert_same_stream` judge what was recorded.

A replay has the recorded bytes, on request at the recorded times, and fails as the recording did,
with the library's own exceptions. `library` is the module `httpx` or `httpx2`; without it the first
of httpx2 and httpx that is installed.
"""

from __future__ import annotations

from recorder.replay.matching.noise import rules_from
from recorder.testing.asserts import assert_cached, assert_lints, assert_same_stream
from recorder.testing.replaying import (
    UnusedRecordingsError,
    async_fault_transport,
    async_recording_transport,
    async_replay_transport,
    fault_transport,
    recording_transport,
    replay_transport,
)
from recorder.testing.subject import recorded_in

__all__ = [
    "UnusedRecordingsError",
    "assert_cached",
    "assert_lints",
    "assert_same_stream",
    "async_fault_transport",
    "async_recording_transport",
    "async_replay_transport",
    "fault_transport",
    "recorded_in",
    "recording_transport",
    "replay_transport",
    "rules_from",
]
