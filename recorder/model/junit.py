"""JUnit's XML, in which a CI reads the result of a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from recorder.model.text import safe_text


class Counts(NamedTuple):
    """How many tests a suite has, and how many of them ended in which way."""

    tests: int
    failures: int = 0
    skipped: int = 0
    errors: int = 0


def suite(name: str, counts: Counts, seconds: float, properties: Mapping[str, str]) -> Element:
    """Return an empty suite."""
    made = Element(
        "testsuite",
        name=name,
        tests=str(counts.tests),
        failures=str(counts.failures),
        skipped=str(counts.skipped),
        errors=str(counts.errors),
        time=f"{seconds:.3f}",
    )
    told = SubElement(made, "properties")
    for key, value in properties.items():
        SubElement(told, "property", name=key, value=safe_text(value))
    return made


def xml(suite: Element) -> bytes:
    """Return the document of a suite."""
    written: bytes = tostring(suite, encoding="utf-8", xml_declaration=True)
    return written + b"\n"
