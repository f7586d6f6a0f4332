"""Writes `docs/sql.md` from the views: `python -m tools.sql_docs`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import URL

from recorder.commands.query import HELD_BYTES, TABLE_ROWS
from recorder.model.text import STORABLE_LIMIT
from recorder.projections.views import VIEWS, View, written
from recorder.projections.views.columns import meaning
from recorder.projections.views.view import Either, Expression
from recorder.store.location import database_url
from recorder.store.queries.query_process import open_query
from tests.support.corpus import ROOT
from tests.support.server import run
from tests.support.superuser import engine
from tools.cookbook import Results, results, section

PAGE = ROOT / "docs" / "sql.md"

SEARCHES = Either(
    """\
SELECT i.exchange_id, snippet(p_search_v1, -1, '[', ']', '…', 12) AS found
FROM p_search_v1 JOIN p_items_v1 AS i ON i.rowid = p_search_v1.rowid
WHERE p_search_v1 MATCH 'dice' ORDER BY rank;""",
    """\
SELECT exchange_id, item, ts_headline('simple', text, plainto_tsquery('simple', 'dice')) AS found
FROM p_search_v1 JOIN p_items_v1 USING (session_id, exchange_id, item)
WHERE words @@ plainto_tsquery('simple', 'dice');""",
)

INTRO = f"""\
# SQL

The views show recordings as tables: messages, reasoning, tool calls, tokens, times, anomalies, the same for all wire
formats; the [cook-book](#cook-book) has questions and answers. `recorder query` reads the views on a read-only
connection; any other SQLite client works too (`sqlite3 -readonly "$(recorder db path)"`). The received bytes are in
[the log](log.md). Its rows may contain only the new part of a request body:
[how to get all of it](log.md#request-bodies-that-repeat).

```sh
recorder query --list
recorder query "select * from usage_by_model"
recorder query "select text from messages where session_name = :name" -p name my-run --jsonl
recorder query --csv < report.sql > report.csv
```

A statement runs in a process of its own, which is ended at its limits: 60 seconds without a row (`--timeout`), 1 GiB of
memory (192 MB for DuckDB), 256 MiB for a value or a row, 2 GiB for a temporary file (4 GB for all of DuckDB's). The
limits of memory are those of Linux. On PostgreSQL the server computes: a statement is cancelled there, and where the
server does not hear of it, `recorder query` ends all the same; `statement_timeout` and `temp_file_limit` of the server
are yours to set.

`-p NAME VALUE` gives `:NAME` its value. A value written as a number is one (`42`, `0.5`; not `007`): in SQLite
every text is greater than every number. If you mean the text, write `CAST(:NAME AS TEXT)`. A table shows the first
{TABLE_ROWS:,} rows, `--json` takes {HELD_BYTES >> 20} MiB; `--jsonl` and `--csv` have no limit. If two columns are
named `text`, the second becomes `text_2`. An empty result is not an error. If SQLite refuses a statement, the exit code
is 1.

## What all views have in common

* Rows are of exchanges that have ended; `exchange_summary`, `session_summary`, `event_gaps` and `event_payloads` have
  the open ones too. Rows appear together with the end of the exchange.
* `NULL` means not reported: a count that was not reported is `NULL`, never 0. Flags are 1 and 0.
* Times end in `_ns`: integers, nanoseconds. `started_ns` and `created_ns` are wall time since 1970 (UTC), as are the
  times of `session_summary`; all others are relative to the beginning of the exchange. Days are in UTC.
* Tokens are as OpenTelemetry counts them: cached ones are part of `input_tokens`, reasoning is part of `output_tokens`.
* A response that is retrieved again, or resumed, is another exchange with the same `response_id` and the whole
  response; the earlier one is *superseded*: its messages, reasoning, tool calls and tokens are left out everywhere
  except in `exchange_summary`, so that nothing counts twice.
* Texts are cut at {STORABLE_LIMIT:,} characters, and characters that a database cannot store as text (NUL, half
  characters) become U+FFFD. The log has the originals.

The names and columns of views are a contract. The tables below them, named `p_…_v1`, are not: they are computed from
the log and disposable, and a table with a higher number may replace them. `recorder db rebuild` computes them again;
`rebuilds` has a row while that is due, `dead_letters` the exchanges that could not be computed, with the reason.

Full-text indexes have the words of texts, each text once: `p_search_v1` of the rows of `p_items_v1` (messages,
reasoning, arguments), `p_search_results_v1` of `p_results_v1` (results of the client's tools), `p_search_user_texts_v1`
of `p_user_texts_v1` (what users wrote, from the first request that has it). They are tables of FTS5, on PostgreSQL of
`tsvector`. `recorder sessions -q` searches all three.
"""

DUCKDB = """\
## DuckDB

DuckDB reads a file with these views, beside a recorder that writes it, and gives the same rows as SQLite. Of
`event_payloads` it gives every column as text: write `CAST(pos AS BIGINT)`.

```sh
duckdb -c "ATTACH 'recordings.db' AS log (TYPE sqlite, READ_ONLY); SELECT * FROM log.usage_by_model"
```

`recorder query --engine duckdb` does that without its command line, and [an export to Parquet](analytics.md) is what
DuckDB and other programs read quickest.
"""


def examples(engine: str) -> dict[str, str]:
    """The queries of the page that this engine takes, by the name of the view."""
    return {"search": written(SEARCHES, engine), **{view.name: written(view.example, engine) for view in VIEWS}}


def page(cookbook: str) -> str:
    """The page, with a section that `tools.cookbook` makes of the session of the demo."""
    return "\n".join([INTRO, *_queries(SEARCHES), DUCKDB, *map(_section, VIEWS), cookbook])


def asked(database: Path | URL) -> Results:
    """What a log answers to the questions of the cook-book."""
    with open_query(database_url(database)) as query:

        def ask(sql: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            result = query.ask(sql, {})
            return result.columns, list(result.rows)

        return results(ask, engine(database))


def _section(view: View) -> str:
    lines = [f"| `{name}` | {meaning(view.name, name)} |" for name in view.columns]
    head = [f"## {view.name}", "", view.row, "", "| column | meaning |", "|---|---|"]
    return "\n".join([*head, *lines, "", *_queries(view.example)]).replace("|  |", "| |")


def _queries(example: Expression) -> list[str]:
    """A query as a block; if engines write it differently one for each, with its name above."""
    if isinstance(example, str):
        return ["```sql", example, "```", ""]
    return ["In a file:", "", *_queries(example.sqlite), "On PostgreSQL:", "", *_queries(example.postgresql)]


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        made = Path(folder) / "demo.db"
        assert run(made, "demo", "--db", made).code == 0
        PAGE.write_text(page(section(asked(made))))
