"""Our own cassette, `.sse.jsonl`: a session as a text file for git. See docs/cassettes.md.

Must not know: where sessions are stored.

    {"recorder_cassette":2,"session":{"name":"demo",…}}
    {"exchange":1,"started":"2026-09-21T14:13:20.000001Z","api":"openai-responses","request":{…},"body":{…}}
    {"exchange":1,"after":0.350123,"response":{"status":200,…}}
    [0.000412,1,"response.created",{"type":"response.created",…}]
    {"exchange":1,"after":0.000031,"end":{"status":"completed","outcome":"eof"}}

This module reads it, line by line, into rows of the log: bytes, kinds, types and numbers as they
were recorded, times to the microsecond. Nothing in a cassette is a path, everything in it is
checked, and nothing in it is larger when read than `recorder.cassettes.sse_jsonl.lines` and the
size of the file allow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from recorder.cassettes import refused
from recorder.cassettes.jsonl import RowsFile
from recorder.cassettes.sse_jsonl.reader import CassetteReader
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.errors import RecorderError
from recorder.model.events import (
    EVENT_BYTES,
    PIECE_BYTES,
    Exchange,
    MemoryBudget,
    Recording,
    Session,
)
from recorder.wire.recording import recording_of, require_answerable

CASSETTE_LIMIT = 256 * 2**20  # of a file that a test holds in memory: more than any git host takes
TOO_LARGE = RecorderError(
    f"it is over {CASSETTE_LIMIT >> 20} MiB, far more than a test needs: split it"
)


def read_cassette(path: Path | str) -> list[Recording]:
    """Read the exchanges of a cassette, ready for replay.

    Raises `RecorderError` with file and line.
    """
    recordings = read_session(path, keeps_events=False)[1]
    try:
        return [require_answerable(each) for each in recordings]
    except ValueError as error:
        raise RecorderError(f"The cassette {path} cannot be read: {error}.") from error


def read_session(path: Path | str, *, keeps_events: bool = True) -> tuple[Session, list[Recording]]:
    """Return the session of a cassette and its exchanges.

    Raises `RecorderError` with file and line.
    """
    budget, overhead_bytes = (
        MemoryBudget("it takes", "split it"),
        EVENT_BYTES if keeps_events else PIECE_BYTES,
    )
    recordings: list[Recording] = []
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size > CASSETTE_LIMIT:
                raise TOO_LARGE
            reader = CassetteReader(file)
            for number, (exchange, events) in enumerate(
                reader.exchanges(budget, overhead_bytes), 1
            ):
                name = f"exchange {number} of {path}"
                recordings.append(
                    recording_of(
                        exchange, events, name=name, number=number, keeps_events=keeps_events
                    )
                )
            return reader.session, recordings
    except OSError as error:
        raise refused(path, error) from error
    except RecorderError as error:
        raise RecorderError(
            f"The cassette {path} cannot be read: {str(error).rstrip('.')}."
        ) from error


def formatted(file: BinaryIO) -> list[bytes]:
    """Return the lines of a cassette in their canonical form, exchanges numbered from 1.

    Raises `RecorderError`.
    """
    if file.seek(0, os.SEEK_END) > CASSETTE_LIMIT:
        raise TOO_LARGE
    reader = CassetteReader(file)
    exchanges = list(reader.exchanges())
    return list(cassette_lines(reader.session, exchanges))


class SseJsonl(RowsFile):
    """A cassette of our own format, checked, as `recorder import` takes it."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` with the line that is not as it should be."""
        reader = CassetteReader(file)
        # to the end: all of it is checked
        if not sum(isinstance(row, Exchange) for row in reader.rows()):
            raise RecorderError("there is no exchange in it")
        super().__init__(reader.session, lambda: CassetteReader(file).rows())
