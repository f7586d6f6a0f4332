"""Tests for `recorder.probe` by what gateways do wrong: each planted fault is found, and nothing in a good answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from recorder.probe import APIS
from tests.probe.faults import FAULTS, PLANTED, PlantedFault
from tests.probe.gateway import CLEAN, gateways
from tests.probe.probed import faults_in, probed


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with gateways(PLANTED) as url:
        yield url


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_planted_fault_is_found(fault: PlantedFault, base: str) -> None:
    found = faults_in(await probed(f"{base}/{fault.name}", fault.api, fault.cases))
    assert fault.rules <= set(chain(*found.values())), f"{fault.says} Found: {found}"


@pytest.mark.parametrize("api", APIS)
async def test_nothing_is_found_where_nothing_is_planted(api: str, base: str) -> None:
    verdicts = await probed(f"{base}/{CLEAN}", api)
    assert faults_in(verdicts) == {}
    assert {each.state for each in verdicts} <= {"passed", "unsupported"}


def test_names_of_faults_are_different() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
