"""The reference of the views, made of the views; `tools.reference` writes it."""

from __future__ import annotations

from recorder.projections.views.columns import meaning
from recorder.projections.views.contract import VIEWS
from recorder.projections.views.parts import Either, Expression, View, written

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

INTRO = """\
# Views

[SQL](../sql.md) has what all views have in common; [Cook-book](cook-book.md) has questions and answers.

## Search

Full-text indexes have the words of texts, each text once: `p_search_v1` of the rows of `p_items_v1` (messages,
reasoning, arguments), `p_search_results_v1` of `p_results_v1` (results of the client's tools), `p_search_user_texts_v1`
of `p_user_texts_v1` (what users wrote, from the first request that has it). They are tables of FTS5, on PostgreSQL of
`tsvector`. `recorder sessions -q` searches all three.
"""


def examples(engine: str) -> dict[str, str]:
    """The queries of the page that this engine takes, by the name of the view."""
    return {
        "search": written(SEARCHES, engine),
        **{view.name: written(view.example, engine) for view in VIEWS},
    }


def page() -> str:
    """Return the page, with a section for each view."""
    return "\n".join([INTRO, *_queries(SEARCHES), *map(_section, VIEWS)])


def _section(view: View) -> str:
    lines = [f"| `{name}` | {meaning(view.name, name)} |" for name in view.columns]
    head = [f"## {view.name}", "", view.row, "", "| column | meaning |", "|---|---|"]
    return "\n".join([*head, *lines, "", *_queries(view.example)]).replace("|  |", "| |")


def _queries(example: Expression) -> list[str]:
    """A query as a block; if engines write it differently one for each, with its name above."""
    if isinstance(example, str):
        return ["```sql", example, "```", ""]
    return [
        "In a file:",
        "",
        *_queries(example.sqlite),
        "On PostgreSQL:",
        "",
        *_queries(example.postgresql),
    ]
