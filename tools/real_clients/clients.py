"""All clients of the table, in its order."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

from tools.real_clients import installing, programs
from tools.real_clients.agents import AGENTS
from tools.real_clients.client import Client, Said
from tools.real_clients.program import LOOP, SLOW, Program
from tools.real_clients.programs import PROGRAMS

_FOLDER = "programs"  # beside the packages: Node finds them from there, and nowhere else


def read(stdout: str, stderr: str, where: str = "1") -> Said:
    """Read the answer of a program, and its last line: the tokens as JSON, or null."""
    text, _, last = stdout.strip().rpartition("\n")
    counts = json.loads(last) or {}
    return Said(text, counts.get("input_tokens"), counts.get("output_tokens"), where)


def copy_programs(client: Client) -> None:
    """Put the programs beside the packages that they import."""
    source = Path(programs.__path__[0])
    shutil.copytree(source, installing.folder(client.packages) / _FOLDER, dirs_exist_ok=True)


def _client(program: Program) -> Client:
    command = (program.language, str(installing.folder(program.packages) / _FOLDER / program.file))
    language = (
        {"python": " (Python)", "node": " (Node)"}[program.language] if program.packages else ""
    )
    return Client(
        f"{program.name}{language}",
        program.version,
        program.packages,
        loop=(*command, LOOP),
        slow=(*command, SLOW),
        read=partial(read, where=program.where),
        prompt=program.prompt,
        shows=program.shows,
        wiring=program.wiring or program.apis,
        websocket=program.websocket,
        note=program.note,
    )


CLIENTS: tuple[Client, ...] = (*AGENTS, *map(_client, PROGRAMS))
