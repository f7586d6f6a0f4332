"""What gateways do wrong: faults that were seen in gateways, planted in the answers of the demo upstream.

A row names the cases of the probe that must see the fault, and the rules that are among the findings of these cases.
`tests.integration.probe.test_faults` sends the cases to each; `make docs` makes a table of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.probe.faults import anthropic, gemini, openai_chat, openai_responses
from tests.support.probe.gateway import Planted
from tests.support.probe.planting import PlantedFault

FAULTS: Mapping[str, Sequence[PlantedFault]] = {
    "openai-responses": openai_responses.FAULTS,
    "openai-chat": openai_chat.FAULTS,
    "anthropic": anthropic.FAULTS,
    "gemini": gemini.FAULTS,
}
"""By the API that they break."""

PLANTED: Mapping[str, Planted] = {fault.name: fault.planted for faults in FAULTS.values() for fault in faults}
