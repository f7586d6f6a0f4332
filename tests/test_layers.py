"""The direction of imports, the purity of the core, and what `import recorder` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import ROOT

PACKAGE = ROOT / "recorder"

# Top to bottom: a module imports only from those above its own.
PURE = (
    *("errors", "messages", "sse", "events", "heads", "records", "facts", "dialects", "decoding", "conclusion"),
    *("capture", "probes", "rules", "purposes", "reading", "projections", "folding", "recorded", "recipes", "sharing"),
    *("exported", "restored", "late", "unread", "grouping", "secrets", "plain", "redaction", "redactor", "routing"),
    *("bodies", "batch", "underway", "assembly"),
    *("matching", "linting", "diffing", "verifying", "manifest"),
)
ADAPTERS = {
    "journal": ("segments", "carried", "unreadable", "blanking", "overwriting", "tape", "journal"),
    "store": (
        *("location", "sqlite", "glossary", "views", "guards", "postgres_schema", "schema", "statements", "postgres"),
        *("migrate", "engines", "shared_rows", "resumed", "tombstones", "holdings", "projector"),
        *("sqlite_writer", "postgres_writer"),
        *("store", "patience", "heartbeat", "rebuild", "histories", "membership", "purging", "unfinished"),
        *("backup", "progress"),
        *("listing", "tally", "log"),
        *("sqlite_reader", "postgres_reader", "readers", "sweeping"),
        *("folded", "query", "postgres_query", "refolding", "standing", "checkup"),
        *("sides", "copied", "copying"),
    ),
    "transports": ("playback", "transports"),
    "proxy": ("descriptors", "admission", "incoming", "forwarding", "proxy", "clients", "server", "refusing"),
    "cassettes": ("cassettes",),
}
WIRING = ("rereading", "ingest", "demo", "commands", "testing", "pytest_plugin", "__main__")

LAYERS = (*PURE, *(name for group in ADAPTERS.values() for name in group), *WIRING)
GROUP = {name: group for group, names in ADAPTERS.items() for name in names}

IMPURE = {
    *("asyncio", "datetime", "fcntl", "http", "logging.config", "multiprocessing", "os", "pathlib", "random"),
    *("secrets", "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time"),
}
ALLOWED_LIBRARIES = {"msgspec", "brotli", "backports", "compression", "rapidfuzz"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "recorder"}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_above(path: Path) -> None:
    own = layer(path)
    if own == "__init__":
        return
    assert own in LAYERS, f"give {own} its place in LAYERS"
    for name in imports(path):
        top = name.split(".")[1] if name.startswith("recorder.") else own
        if name == "recorder" or top.startswith("__") or top == own:
            continue
        assert LAYERS.index(top) < LAYERS.index(own), f"{own} imports {top}, which stands below it"
        if own in GROUP and top in GROUP:
            assert GROUP[own] == GROUP[top], f"adapters do not import each other: {own} imports {top}"


@pytest.mark.parametrize("path", [p for p in modules() if layer(p) in PURE], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_the_core_is_pure(path: Path) -> None:
    for name in imports(path):
        top = name.split(".")[0]
        assert name not in IMPURE, f"{path.name} imports {name}: no I/O, no clock, no randomness in the core"
        assert top in sys.stdlib_module_names or top == "recorder" or top in ALLOWED_LIBRARIES, name


def loaded_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"sqlalchemy", "alembic", "aiosqlite", "httpx", "click", "httptools", "asyncio", "msgspec"}
    assert not heavy & loaded_by("import recorder")


def test_the_pytest_plugin_loads_nothing_heavy() -> None:
    heavy = {"sqlalchemy", "alembic", "aiosqlite", "httpx", "httpx2", "click", "httptools", "msgspec"}
    assert not heavy & loaded_by("import recorder.pytest_plugin")


def test_the_command_line_loads_a_verb_when_it_is_called() -> None:
    loaded = loaded_by("import recorder.commands")
    assert not {"sqlalchemy", "alembic", "httpx", "httptools"} & loaded


LONGEST = 450  # lines: a module holds one concept, whole, which 150 to 400 lines do; more wants a reason, here


def test_no_module_has_grown_past_its_noun() -> None:
    long = {path.name: count for path in modules() if (count := len(path.read_text().splitlines())) > LONGEST}
    assert not long, "split it where it is two concepts, or say here why not"
