"""`tools.mutants`: what is broken on purpose is seen, and by the test that is named for it."""

from __future__ import annotations

import re

import pytest

from tests.repository.test_guarantees_docs import HELD, PAGE
from tests.support.corpus import ROOT
from tools.mutants import LIMIT_S, MUTANTS, Copy, Mutant, broken_text, survived


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


def test_what_is_replaced_stands_there_once_and_the_test_exists() -> None:
    lost = []
    for mutant in MUTANTS:
        assert broken_text(mutant)
        path, *names = mutant.test.partition("[")[0].split("::")
        if "def " + "".join(names[-1:]) not in (ROOT / path).read_text():
            lost.append(mutant.test)
    assert lost == []
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_every_promise_is_broken_somewhere_or_the_page_says_why_not() -> None:
    broken = {mutant.name.partition(":")[0] for mutant in MUTANTS}
    section = PAGE.partition("## Broken on purpose")[2].partition("\n## ")[0]
    unbroken = set(re.findall(r"^\| ([A-E]\d+) \|", section, re.MULTILINE))
    assert unbroken.isdisjoint(broken)
    assert unbroken | broken & HELD.keys() == HELD.keys()


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, id=each.name, marks=[] if each.is_quick else [pytest.mark.slow])
        for each in sorted(MUTANTS, key=lambda mutant: mutant.file)
    ],
)
def test_what_is_broken_is_seen(copy: Copy, mutant: Mutant) -> None:
    assert survived(copy, mutant) is None


@pytest.mark.slow
@pytest.mark.timeout(3 * LIMIT_S)
def test_what_is_not_broken_passes_the_same_tests(copy: Copy) -> None:
    assert copy.run(sorted({mutant.test for mutant in MUTANTS})) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        pytest.param(
            "is_loopback or (name", "is_loopback or  (name", "is green", marks=pytest.mark.slow
        ),
        ("import re\n", "import re\nimport nothing_of_that_name\n", "the tests could not be run"),
        (
            "return is_loopback or (name",
            "return nothing_of_that_name or (name",
            "it is not a claim that failed",
        ),
        pytest.param(
            *(
                "return is_loopback or (name",
                "return True or (name",
                "it failed for another reason",
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["green", "does not start", "raises", "another reason"],
)
def test_a_mutant_that_is_not_seen_or_does_not_run_is_told_from_one_that_is(
    copy: Copy, old: str, new: str, why: str
) -> None:
    mutant = Mutant(
        "none",
        "recorder/proxy/admission.py",
        old,
        new,
        "tests/unit/proxy/test_admission.py",
        "a sentence of no test",
    )
    assert why in (survived(copy, mutant) or "")
