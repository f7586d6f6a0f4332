"""The direction of imports, the purity of the core, and what `import recorder` costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from recorder.store.engine import Part
from tests.support.corpus import ROOT
from tests.support.empty_log import empty

PACKAGE = ROOT / "recorder"

# From bottom to top: a folder imports from rows above its own. The folders of one row do not know
# each other.
ORDER = (
    ("errors", "files", "program"),
    ("model",),
    ("wire",),
    ("journal", "projections"),
    ("replay.matching",),
    ("lint", "diff", "cassettes"),
    ("store", "proxy.http"),
    ("archive", "prices"),
    ("ingest", "proxy"),
    ("replay", "shipping"),
    ("recordings", "demo"),
    ("testing", "ui", "exports"),
    ("probe", "torture"),
    ("commands",),
    ("pytest_plugin", "__main__"),
)
ROW = {folder: number for number, row in enumerate(ORDER) for folder in row}
PURE = {"errors", "model", "wire", "projections", "replay.matching", "lint", "diff"}

# What is of one format stands in its folder, whatever its layer is: that layer loads it from there.
OF_A_FORMAT = re.compile(r"wire\.dialects\.\w+\.(lint|probe)\b")

IMPURE = {
    *(
        "asyncio",
        "datetime",
        "fcntl",
        "http",
        "logging.config",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
    ),
    *(
        "secrets",
        "select",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "subprocess",
        "tempfile",
        "threading",
        "time",
    ),
}
ALLOWED_LIBRARIES = {"msgspec", "brotli", "backports", "compression", "rapidfuzz"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


NAMES = {
    f"recorder.{name_of(path)}" for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"
}


def path_of(name: str) -> Path:
    module = PACKAGE.joinpath(*name.split("."))
    return module / "__init__.py" if module.is_dir() else module.with_suffix(".py")


def folder(name: str) -> str:
    """The entry of `ORDER` that a module, named without `recorder.`, belongs to."""
    if part := OF_A_FORMAT.match(name):
        return part[1]
    first, _, rest = name.partition(".")
    inner = f"{first}.{rest.partition('.')[0]}"
    return inner if inner in ROW else first


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """What a module imports; for types, in functions and late, by `recorder.program.load`, too."""
    nodes = [*ast.walk(tree(path))]
    return frozenset[str]().union(*map(imported_by, nodes), *map(loaded_late, nodes))


def imported_by(node: ast.AST) -> set[str]:
    """The modules that a statement imports; none of another one."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    assert node.level == 0, "imports are absolute"
    module = node.module or ""
    inner = {f"{module}.{alias.name}" for alias in node.names}
    return inner & NAMES | (set() if inner <= NAMES else {module})


def loaded_late(node: ast.AST) -> set[str]:
    """The module of the program that a text `MODULE:NAME` names, as `load` takes it."""
    text = node.value if isinstance(node, ast.Constant) else None
    return {text.partition(":")[0]} & NAMES if isinstance(text, str) and ":" in text else set()


def test_every_folder_has_its_place_and_says_what_it_is() -> None:
    tops = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert tops == {name.partition(".")[0] for name in ROW} | {"__init__"}
    for path in PACKAGE.rglob("__init__.py"):
        text = ast.get_docstring(tree(path))
        assert text, f"{path}: say what the folder is"
        assert path.parent == PACKAGE or "Must not know: " in text, (
            f"{path}: say what the folder must not know"
        )


def ours(path: Path) -> list[str]:
    """What a module imports of the program, named without `recorder.`; the version is anybody's."""
    names = [
        name.removeprefix("recorder.") for name in imports(path) if name.startswith("recorder.")
    ]
    return [name for name in names if name != "__version__"]


def test_a_folder_imports_only_from_those_above_it() -> None:
    offences = []
    for path in modules():
        own = folder(name_of(path))
        for name in ours(path):
            is_above = own == "__init__" or folder(name) == own or ROW[folder(name)] < ROW[own]
            if not is_above:
                offences.append(f"{name_of(path)} imports {name}")
    assert offences == []


# What is imported in a function: it is optional, or takes a twentieth of a command's start and few
# runs need it.
LATE = {
    *("aiohttp", "duckdb", "genai_prices", "obstore", "psycopg"),  # of an extra
    *("alembic", "difflib", "rapidfuzz", "rich", "uvloop"),
}


def test_no_modules_import_each_other() -> None:
    """Imports for types and in functions count, those of `load` do not: a table that names modules
    is below them.
    """
    graph = {}
    for path in modules():
        names = {name for node in ast.walk(tree(path)) for name in imported_by(node)} & NAMES
        graph[f"recorder.{name_of(path)}"] = names - {f"recorder.{name_of(path)}"}
    cycles = []
    while graph:  # what imports nothing that is left, and what nothing left imports, is in no cycle
        imported = set().union(*graph.values())
        ends = {
            name
            for name, names in graph.items()
            if not names & graph.keys() or name not in imported
        }
        if not ends:
            cycles = sorted(graph)
            break
        graph = {name: names - ends for name, names in graph.items() if name not in ends}
    assert cycles == []


def test_nothing_but_the_optional_is_imported_in_a_function() -> None:
    """A module of ours that few uses need is loaded by `recorder.program.load`, a verb by its
    group.
    """
    offences = []
    for path in modules():
        functions = [
            node
            for node in ast.walk(tree(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        names = {
            name
            for function in functions
            for node in ast.walk(function)
            for name in imported_by(node)
        }
        late = {name for name in names if name.partition(".")[0] not in LATE}
        offences += [f"{name_of(path)} imports {name}" for name in sorted(late)]
    assert offences == []


def test_the_http_layer_stands_alone() -> None:
    offences = []
    for path in modules():
        if folder(name_of(path)) == "proxy.http":
            others = [
                name
                for name in ours(path)
                if name != "errors" and not name.startswith("proxy.http.")
            ]
            offences += [f"{name_of(path)} imports {name}" for name in others]
    assert offences == []


# What knows an engine: its folder and its driver. `store.engine` finds a folder by its name, and
# imports none.
ENGINES = {
    "store.sqlite": {"sqlite3"},
    "store.postgres": {"psycopg"},
}
OUTSIDE = {
    "cassettes.transcripts.opencode": {"sqlite3"},  # what opencode keeps is a database of its own
    # the version of the library is a label of `recorder_build_info`
    "commands.serving.health_snapshot": {"sqlite3"},
}


def knows_an_engine(module: str) -> set[str]:
    """What a module imports of engines and their drivers that are not its own."""
    found = set()
    for engine, drivers in ENGINES.items():
        if f"{module}.".startswith(f"{engine}."):
            continue
        for name in imports(path_of(module)):
            if f"{name}.".startswith(f"recorder.{engine}.") or name.partition(".")[0] in drivers:
                found.add(name)
    return found


def test_an_engine_is_imported_by_its_own_folder_alone() -> None:
    """Others ask for a part of it: `recorder.store.engine` has the table."""
    known = {module: knows_an_engine(module) for module in map(name_of, modules())}
    assert {module: found for module, found in known.items() if found} == OUTSIDE


def test_the_core_is_pure() -> None:
    """No I/O, no clock, no random number, no other library."""
    offences = []
    for path in modules():
        if folder(name_of(path)) in PURE:
            for name in imports(path):
                top = name.partition(".")[0]
                is_known = (
                    top in sys.stdlib_module_names or top == "recorder" or top in ALLOWED_LIBRARIES
                )
                if name in IMPURE or not is_known:
                    offences.append(f"{name_of(path)} imports {name}")
    assert offences == []


def loaded_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr  # 3: a verb has found nothing in an empty log
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"sqlalchemy", "alembic", "httpx", "click", "httptools", "asyncio", "msgspec"}
    assert not heavy & loaded_by("import recorder")


def test_the_pytest_plugin_loads_nothing_heavy() -> None:
    heavy = {"sqlalchemy", "alembic", "httpx", "httpx2", "click", "httptools", "msgspec"}
    assert not heavy & loaded_by("import recorder.pytest_plugin")


def test_reading_a_cassette_loads_nothing_heavy() -> None:
    assert not {"sqlalchemy", "click", "httpx", "asyncio"} & loaded_by(
        "import recorder.cassettes.sse_jsonl"
    )


def test_the_command_line_loads_a_verb_when_it_is_called() -> None:
    loaded = loaded_by("import recorder.commands")
    assert not {"sqlalchemy", "alembic", "httpx", "httptools"} & loaded


# What a verb starts without, and who needs it instead: each takes a twentieth of the start or more.
# who is given a file, not a session
FILES = {"yaml", "recorder.recordings.files", "recorder.ingest.assembler"}
TERMINAL = {"rich.console", "rich.progress"}  # who writes to a terminal
DIFFERENCES = {"rapidfuzz"}  # a diff of what differs
RARE = {"alembic", "httpx", "sqlalchemy.orm", "sqlalchemy.ext.asyncio", "psycopg", "duckdb"}
# the process of `--ui-port`
VIEWER = {"recorder.ui.app", "recorder.lint", "recorder.diff", "rapidfuzz"}
# a format of `export`
WRITERS = {f"recorder.cassettes.{name}" for name in ("har", "plain", "sse_jsonl", "vcr")}
WITHOUT = {
    "show": FILES | TERMINAL | RARE,
    "diff": FILES | TERMINAL | DIFFERENCES | RARE,
    "lint": FILES | TERMINAL | RARE,
    "export": FILES | TERMINAL | RARE | WRITERS,
    "verify": FILES | TERMINAL | RARE,
    "terminal.cache_view": FILES | TERMINAL | RARE,
    "events": FILES | TERMINAL | RARE,
    "replay": FILES | TERMINAL | RARE | {"recorder.proxy"},
    "usage": FILES | TERMINAL | RARE,
    "query": FILES | TERMINAL | RARE,
    "tail": FILES | TERMINAL | RARE,
    "serve": VIEWER | TERMINAL | WRITERS | {"alembic", "duckdb", "httpx"},
    "mock": VIEWER | TERMINAL | {"alembic", "duckdb", "httpx"},
    "env": {"sqlalchemy", "recorder.store.queries.reader"},  # it opens no log
    # nor does `recorder db path`
    "ops.path": {"recorder.store.queries.reader", "recorder.store.schema"},
    "db": {"sqlalchemy"},  # each of its commands is loaded when it is called
}


@pytest.mark.parametrize("verb", WITHOUT)
def test_a_verb_starts_without_what_it_rarely_needs(verb: str) -> None:
    assert not WITHOUT[verb] & loaded_by(f"import recorder.commands.{verb}")


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_who_needs_no_event_loop_loads_none_of_its_connections(engine: str) -> None:
    """A process for the user's own SQL would take half as long again to start."""
    parts = [part for part in get_args(Part) if part != "reading"]
    loaded = loaded_by(
        f"from recorder.store.engine import part; [part({engine!r}, name) for name in {parts}]"
    )
    assert not {"sqlalchemy.ext.asyncio", "sqlalchemy.orm", "aiosqlite"} & loaded


# modules of the program: who only reads tables needs no decoder, no fold, and no question but its
# own
MOST_LOADED = 40


@pytest.mark.parametrize("verb", [["usage"], ["sessions"], ["query", "SELECT 1"]], ids=" ".join)
def test_a_verb_that_reads_tables_loads_few_modules(verb: list[str], tmp_path: Path) -> None:
    database = empty(tmp_path / "log.db")
    ours = loaded_by(
        f"import atexit; atexit.register(lambda: [print(name) for name in sys.modules]); "
        f"from recorder.commands import main; main([*{verb}, '--db', {str(database)!r}])"
    )
    ours = {name for name in ours if name.partition(".")[0] == "recorder"}
    assert not {
        name for name in ours if name.startswith(("recorder.wire", "recorder.projections.fold"))
    }
    assert 20 < len(ours) <= MOST_LOADED, sorted(ours)


# lines: a module holds one concept, whole, which 150 to 450 lines do; more wants a reason, here
LONGEST = 540
SCRIPTS = sorted((PACKAGE / "ui" / "static").rglob("*.js"))


def test_no_module_has_grown_past_its_noun() -> None:
    assert SCRIPTS
    every = (*modules(), *SCRIPTS)
    long = {
        path.name: count
        for path in every
        if (count := len(path.read_text().splitlines())) > LONGEST
    }
    assert not long, "split it where it is two concepts, or say here why not"
