"""`recorder query`: where its SQL and values come from, and the formats of what it writes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence

import pytest

from recorder.commands import query as command
from recorder.errors import RecorderError
from recorder.store.queries.query import QueryResult, Value, value_of

Written = pytest.CaptureFixture[bytes]
Write = Callable[[QueryResult], None]
FORMATS: Sequence[Write] = (command._table, command._csv, command._json, command._json_lines)


def written(
    write: Write, columns: str, rows: Sequence[Sequence[object]], captured: Written
) -> tuple[str, str]:
    """What a format makes of rows, and what it says to a person."""
    write(QueryResult(columns.split(), iter([tuple(row) for row in rows])))
    out, err = captured.readouterr()
    return out.decode(), err.decode()


def test_the_formats_have_the_same_rows(capsysbinary: Written) -> None:
    rows = [(None, 1.5, 'x,"y', b"t", b"\xff")]
    table, csv, array, lines = (
        written(write, "a b c d e", rows, capsysbinary)[0] for write in FORMATS
    )
    row = {"a": None, "b": 1.5, "c": 'x,"y', "d": "t", "e": {"base64": "/w=="}}
    assert table.splitlines()[1].split() == ["1.5", 'x,"y', "t", '{"base64":"/w=="}']
    assert csv == 'a,b,c,d,e\n,1.5,"x,""y",t,"{""base64"":""/w==""}"\n'
    assert json.loads(array) == [row]
    assert [json.loads(line) for line in lines.splitlines()] == [row]


def test_an_empty_result_is_no_error(capsysbinary: Written) -> None:
    found = [written(write, "a b", [], capsysbinary)[0] for write in FORMATS]
    assert found == ["a  b\n", "a,b\n", "[]\n", ""]


def test_a_table_is_bounded_and_says_so(
    capsysbinary: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TABLE_ROWS", 2)
    out, err = written(command._table, "n", [(1,), (2,), (3,)], capsysbinary)
    assert out.split() == ["n", "1", "2"]
    assert "The first 2 rows; --jsonl and --csv give all of them." in err


def test_an_array_that_is_too_large_is_refused_whole(
    capsysbinary: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "HELD_BYTES", 2**20)
    zeros = "0" * 2**21
    with pytest.raises(RecorderError, match="over 1 MiB, too much for one JSON array: use --jsonl"):
        written(command._json, "z", [(zeros,)], capsysbinary)
    assert capsysbinary.readouterr().out == b""
    assert zeros in written(command._json_lines, "z", [(zeros,)], capsysbinary)[0]


def test_sql_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    for sql in (None, "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 'it' AS a\n")))
        assert command._given(sql) == "SELECT 'it' AS a\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [("42", 42), ("-7", -7), ("0", 0), ("0.50", 0.5), ("-1.5", -1.5), ("9223372036854775807", 2**63 - 1)]
    + [(text, text) for text in ("007", "9223372036854775808", "1e3", "+1", "nan", "inf", "", "1.", "½", "٣", "1_000")],
)  # fmt: skip
def test_a_value_is_a_number_if_it_is_written_as_one(text: str, value: Value) -> None:
    assert repr(value_of(text)) == repr(value)
