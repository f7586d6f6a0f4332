"""The table of `make coverage`."""

from __future__ import annotations

from tools.coverage_table import table


def summary(lines: tuple[int, int], branches: tuple[int, int]) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "covered_lines": lines[0],
            "num_statements": lines[1],
            "covered_branches": branches[0],
            "num_branches": branches[1],
        }
    }


def test_files_are_counted_by_folder_and_only_all_is_100_percent() -> None:
    files = {
        "recorder/wire/framing/sse.py": summary((199, 200), (3, 4)),
        "recorder/wire/dialects/usage.py": summary((100, 100), (4, 4)),
        "recorder/model/events.py": summary((50, 50), (0, 0)),
        "recorder/errors.py": summary((1, 3), (0, 2)),
    }
    head, *rows = table({"files": files}).splitlines()
    assert head.split() == ["folder", "lines", "branches"]
    assert [row.split() for row in rows] == [
        ["(no", "folder)", "3", "33", "%", "2", "0", "%"],
        ["model", "50", "100", "%", "0", "-"],
        ["wire", "300", "99", "%", "8", "87", "%"],
        ["all", "353", "99", "%", "10", "70", "%"],
    ]
