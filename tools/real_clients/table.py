"""The table of `docs/clients.md`: a row a client, between two marks; rows of clients that were not
run stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.corpus import ROOT
from tools.real_clients.client import COLUMNS, Client

PATH = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- clients: written by `make test-clients` -->", "<!-- end of clients -->"
HEAD = ("client", "version", *COLUMNS, "run on")

Row = Sequence[str]


def row(client: Client, results: Mapping[str, str], date: str) -> Row:
    return (client.name, client.version, *(results[column] for column in COLUMNS), date)


def rows(text: str) -> dict[str, Row]:
    """The rows of a document by the client's name."""
    lines = text[text.index(BEGIN) : text.index(END)].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in lines
        if line.startswith("| ")
    ]
    return {each[0]: each for each in cells[1:]}


def written(text: str, clients: Sequence[Client], new: Mapping[str, Row]) -> str:
    """The document with these rows; those of clients that are gone are left out."""
    all_rows = {**rows(text), **new}
    lines = [HEAD, *(all_rows[client.name] for client in clients if client.name in all_rows)]
    table = [f"| {' | '.join(each)} |" for each in lines]
    table.insert(1, "|---" * len(HEAD) + "|")
    notes = [f"* {client.name}: {client.note}" for client in clients if client.note]
    body = "\n".join([*table, *([""] if notes else []), *notes])
    return f"{text[: text.index(BEGIN)]}{BEGIN}\n\n{body}\n\n{text[text.index(END) :]}"


def save(clients: Sequence[Client], new: Mapping[str, Row], path: Path = PATH) -> None:
    path.write_text(written(path.read_text(), clients, new))
