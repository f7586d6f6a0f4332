"""Tests for `recorder.probe` by what gateways do wrong: each planted fault is found, and nothing in
a good answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from recorder.probe.apis import APIS
from tests.support.probe.faults import FAULTS, PLANTED, PlantedFault
from tests.support.probe.gateway import CLEAN, faults_in, gateways, probed
from tools.probe_faults_docs import page

ALL = [
    pytest.param(api, fault, id=fault.name) for api, faults in FAULTS.items() for fault in faults
]


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with gateways(PLANTED) as url:
        yield url


@pytest.mark.long
@pytest.mark.parametrize(("api", "fault"), ALL)
async def test_a_planted_fault_is_found(api: str, fault: PlantedFault, base: str) -> None:
    reads = "PR15" in fault.rules
    found = faults_in(
        await probed(f"{base}/{fault.name}", api, fault.cases.split(), reads_with_sdk=reads)
    )
    assert set(fault.rules.split()) <= set(chain(*found.values())), f"{fault.says} Found: {found}"


@pytest.mark.long
@pytest.mark.parametrize("api", APIS)
async def test_nothing_is_found_where_nothing_is_planted(api: str, base: str) -> None:
    verdicts = await probed(f"{base}/{CLEAN}", api)
    assert faults_in(verdicts) == {}
    assert {each.state for each in verdicts} <= {"passed", "unsupported"}


def test_names_of_faults_are_different() -> None:
    assert len(PLANTED) == len(ALL) >= 30


def test_every_fault_is_on_the_page() -> None:
    text = page()
    assert [
        fault.name for fault in chain(*FAULTS.values()) if f"| {fault.says} |" not in text
    ] == []
