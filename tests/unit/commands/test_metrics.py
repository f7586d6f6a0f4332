"""The figures of a recorder: how they are told, what is made of them, and the page that explains
them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from recorder.commands.serving.health_snapshot import (
    LAG_S,
    MARK_BYTES,
    METRICS,
    RECENT_S,
    HealthSnapshot,
    Metric,
    Process,
    exposition,
    reasons,
    watch_disk,
)
from tests.support.corpus import ROOT

WELL = HealthSnapshot(ingester_pid=7, free_bytes=10 * MARK_BYTES)
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
_LINE = re.compile(
    r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?\d+(?:\.\d+)?(?:e[+-]\d+)?)'
)


def parsed(text: str) -> dict[str, float]:
    """Each sample of an exposition; fails on a line that is neither one nor a comment."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(("# HELP ", "# TYPE ")):
            match = _LINE.fullmatch(line)
            assert match, line
            found[f"{match[1]}{{{match[2]}}}" if match[2] else match[1]] = float(match[3])
    return found


# -- the text


def test_the_text_is_what_prometheus_reads() -> None:
    full = msgspec.structs.replace(
        WELL, streams={"openai": 3}, exchanges={("openai", "eof"): 9}, size_bytes=2**53
    )
    samples = parsed(exposition(full).decode())
    assert samples['recorder_streams_open{upstream="openai"}'] == 3
    assert samples['recorder_exchanges_total{upstream="openai",outcome="eof"}'] == 9
    assert samples["recorder_response_bytes_total"] == 2**53
    assert samples["recorder_ingester_up"] == 1


def test_a_label_cannot_break_out_of_its_line() -> None:
    text = exposition(msgspec.structs.replace(WELL, streams={'a"} 1\n\\': 1})).decode()
    assert 'recorder_streams_open{upstream="a\\"} 1\\n\\\\"} 1\n' in text
    parsed(text)


def test_what_is_not_known_is_left_out() -> None:
    assert "recorder_disk_free_bytes" not in parsed(exposition(HealthSnapshot()).decode())


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_says_its_kind(metric: Metric) -> None:
    assert metric.name.startswith("recorder_")
    assert metric.name.endswith("_total") == (metric.type == "counter")


def test_operations_md_lists_what_is_served() -> None:
    listed = re.findall(r"^\| `(recorder_\w+)` \| (\w+) \| (.+) \|$", OPERATIONS, re.MULTILINE)
    assert listed == [(metric.name, metric.type, metric.help) for metric in METRICS]


def test_an_alert_watches_what_is_served() -> None:
    names = set(re.findall(r"recorder_\w+", "".join(re.findall(r"expr: (.+)", OPERATIONS))))
    assert names
    assert names <= {metric.name for metric in METRICS}


# -- health


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"ingester_pid": None}, "being started"),
        ({"ingester_pid": None, "ingester_end": "ended with code -9"}, "code -9"),
        ({"journal_is_full": True}, "at its bound"),
        ({"journal_problem": "Files are gone."}, "are gone"),
        ({"journal_since_s": 3.0, "journal_lost_bytes": 7_000}, "7,000 bytes are lost"),
        ({"lag_s": LAG_S + 1, "lag_bytes": 2**20}, "1.0 MiB have waited"),
        ({"database_error": "The database is damaged."}, "The database is damaged."),
        ({"free_bytes": MARK_BYTES - 1}, "127 MiB are free"),
    ],
)
def test_each_reason_is_one_sentence(change: dict[str, object], word: str) -> None:
    (sentence,) = reasons(msgspec.structs.replace(WELL, **change))
    assert word in sentence
    assert sentence.endswith(".")


def test_deleted_files_that_are_back_for_long_are_no_reason() -> None:
    assert (
        reasons(msgspec.structs.replace(WELL, journal_times=1, journal_since_s=RECENT_S + 1)) == []
    )


def test_a_recorder_that_is_well_has_no_reason() -> None:
    assert reasons(WELL) == []


def test_a_stopped_ingester_is_named_as_the_reason_of_the_lag() -> None:
    stopped = msgspec.structs.replace(WELL, lag_s=60.0, processes={"ingester": Process(0, 0, True)})
    assert "SIGCONT" in reasons(stopped)[0]


async def test_a_full_disk_is_said_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    free: Iterator[int] = iter([MARK_BYTES, *[MARK_BYTES - 1] * 5, *[MARK_BYTES] * 5])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    # when there is nothing more to look at
    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError):
        await asyncio.wait_for(watch_disk(tmp_path, look_s=0), 5)
    assert [record.message[:12] for record in caplog.records] == ["Only 127 MiB", "There is roo"]
