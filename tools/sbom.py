"""Writes the bill of materials of the wheel: `python -m tools.sbom`. A test says when it is to be written again.

It is CycloneDX, and is in the wheel as `.dist-info/sboms/` (PEP 770). It has what the wheel contains of others, by the
manifest of the viewer's libraries, and what it asks for when it is installed: the distributions of `dependencies` as
required, those of the extras for users as optional, in the versions of `constraints.txt`, with which the tests run.
Nothing in it hangs on the machine or the hour: the same input gives the same bytes.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from recorder import __version__
from tests.support.corpus import ROOT
from tools.vendored import FOLDER, files_of, packages

PLACE = ROOT / "docs" / "sse-recorder.cdx.json"
PROJECT: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Extras for those who work on the program.
NOT_FOR_USERS = {"browser", "check", "dev", "docs", "frames", "slow", "test"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = (("linux", "Linux", "x86_64"), ("darwin", "Darwin", "arm64"))

SPDX = re.compile(r"[\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+)*")


def environments() -> Iterator[dict[str, str]]:
    """Yield the environments that the program is for, as markers see them."""
    for python, (platform, system, machine) in itertools.product(PYTHONS, MACHINES):
        yield {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "os_name": "posix",
            "sys_platform": platform,
            "platform_system": system,
            "platform_machine": machine,
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }


ENVIRONMENTS = tuple(environments())


def pins() -> dict[str, str]:
    """Return the versions of `constraints.txt` by canonical name."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def applies(requirement: Requirement, extra: str) -> bool:
    """Return whether some environment of the program installs the requirement."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate(each | {"extra": extra}) for each in ENVIRONMENTS)


def graph(requirements: Iterable[str]) -> dict[str, set[str]]:
    """Return the distributions behind the requirements, each with those that it asks for."""
    found: dict[str, set[str]] = {}
    seen = set[tuple[str, str]]()
    wanted = [each for text in requirements if applies(each := Requirement(text), "")]
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        found.setdefault(name, set())
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            asked = [each for text in metadata.requires(name) or [] if applies(each := Requirement(text), extra)]
            found[name] |= {canonicalize_name(each.name) for each in asked}
            wanted += asked
    return found


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def licences(name: str) -> list[dict[str, Any]]:
    """Return the licence that a distribution names: an expression of SPDX, else its own words."""
    about = metadata.metadata(name).json
    expression = str(about.get("license_expression", ""))
    if SPDX.fullmatch(expression):
        return [{"expression": expression}]
    classified = [each.rpartition(" :: ")[2] for each in about.get("classifier", []) if each.startswith("License ::")]
    stated = str(about.get("license", "")).strip()
    words = [stated] if stated and len(stated) < 64 else classified
    return [{"license": {"name": each}} for each in words]


def bundled(package: Mapping[str, Any]) -> dict[str, Any]:
    """Return the component for a library whose files are in the wheel."""
    folder = FOLDER.relative_to(ROOT)
    files = [
        {
            "type": "file",
            "name": str(folder / each.file),
            "hashes": [{"alg": "SHA-256", "content": each.sha256}],
        }
        for each in files_of(package)
    ]
    return {
        "type": "library",
        "bom-ref": f"pkg:npm/{package['name']}@{package['version']}",
        "name": package["name"],
        "version": package["version"],
        "scope": "required",
        "description": "In the wheel, for the pages of the viewer.",
        "hashes": [{"alg": "SHA-512", "content": package["sha512"]}],
        "licenses": [{"license": {"id": package["licence"]}}],
        "purl": f"pkg:npm/{package['name']}@{package['version']}",
        "components": files,
    }


def installed(name: str, version: str, scope: str) -> dict[str, Any]:
    """Return the component for a distribution that is installed beside the wheel."""
    ref = purl(name, version)
    found: dict[str, Any] = {"type": "library", "bom-ref": ref, "name": name, "version": version, "scope": scope}
    return {**found, "licenses": licences(name), "purl": ref}


def document() -> dict[str, Any]:
    """Return the bill of materials as the value of its JSON."""
    extras = [asked for name, asked in PROJECT["optional-dependencies"].items() if name not in NOT_FOR_USERS]
    required, direct = PROJECT["dependencies"], [*PROJECT["dependencies"], *itertools.chain.from_iterable(extras)]
    contents = {"metadata": {"component": itself()}, **parts(graph(required).keys(), graph(direct), direct)}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(contents, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return {**head, **contents}


def itself() -> dict[str, Any]:
    """Return the component that the wheel is."""
    name = PROJECT["name"]
    about = {"name": name, "version": __version__, "description": PROJECT["description"]}
    licence = {"licenses": [{"license": {"id": PROJECT["license"]}}]}
    return {
        "type": "application",
        "bom-ref": purl(name, __version__),
        **about,
        **licence,
        "purl": purl(name, __version__),
    }


def parts(required: Collection[str], whole: Mapping[str, set[str]], direct: Iterable[str]) -> dict[str, Any]:
    """Return the components and what asks for what: the wheel for those of `direct` and for what it contains."""
    versions = pins()
    vendored = [bundled(each) for each in packages()]
    refs = {name: purl(name, versions[name]) for name in sorted(whole)}
    beside = [installed(name, versions[name], "required" if name in required else "optional") for name in refs]
    asked = {refs[canonicalize_name(Requirement(text).name)] for text in direct} | {
        each["bom-ref"] for each in vendored
    }
    edges = {itself()["bom-ref"]: asked, **{ref: {refs[each] for each in whole[name]} for name, ref in refs.items()}}
    graphed = [{"ref": ref, "dependsOn": sorted(others)} for ref, others in edges.items()]
    return {"components": [*vendored, *beside], "dependencies": graphed}


def text() -> str:
    """Return the bill of materials as its file has it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.write_text(text())
    sys.stdout.write(f"{PLACE.relative_to(ROOT)}\n")
