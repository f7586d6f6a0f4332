"""Names and docstrings of the source: few folders, one meaning for a class name, docstrings that begin with a verb."""

from __future__ import annotations

import ast
import re
import statistics
from collections import defaultdict

from tests.test_layers import PACKAGE, imports, modules, name_of

CLAUSE = re.compile(r"(What|Whether|Those|Of|The same|Who|Which|Where|How|That|When|Why|All that|As )\b")
SMALL = 80  # lines


def test_the_folders_are_seen_at_a_glance() -> None:
    entries = [path for path in PACKAGE.iterdir() if path.is_file() or (path / "__init__.py").exists()]
    names = {path.name for path in entries if not path.name.startswith("__")} - {"py.typed"}  # a marker for tools
    assert len(names) <= 21, sorted(names)


def test_a_class_name_means_at_most_two_things() -> None:
    """An underscore in front makes no other name: a reader who searches for it finds both."""
    homes: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].add(name_of(path))
    assert not {name: sorted(found) for name, found in homes.items() if len(found) > 2}


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    first_words = [
        text.splitlines()[0]
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
    ]
    clauses = [line for line in first_words if CLAUSE.match(line)]
    assert len(clauses) < len(first_words) / 20, clauses


def test_modules_are_whole() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in modules() if path.name != "__init__.py"}
    assert 120 <= statistics.median(sizes.values()) <= 250
    importers: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        for name in imports(path):
            importers[name.removeprefix("recorder.")].add(name_of(path))
    small = [name for name, size in sizes.items() if size < SMALL and len(importers[name]) == 1]
    assert len(small) < len(sizes) / 20, small
