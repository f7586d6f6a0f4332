"""The cases of the format."""

from __future__ import annotations

from recorder.probe import checks
from recorder.probe.cases import Case, ProbeApi, ProbeCall, ProbeStep, SdkReading

CHAT = ProbeStep(
    lambda progress: ProbeCall("POST", "/v1/chatter", {"ask": "one"}), (checks.ends("said"),), 2
)

API = ProbeApi(
    "acme-chatter",
    "acme-1",
    lambda key: {"acme-key": key},
    lambda document: None,
    (Case("chat", "A chat", (CHAT,), modes=("streamed",)),),
    "acme_sdk",
    lambda http, answer: SdkReading("", [], (None, None)),
)
