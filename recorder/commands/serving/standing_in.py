"""A program that is not there: its client gets the recorded lines, at their times."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from recorder.commands.replay import parse_speed
from recorder.commands.serving.replaying import MISMATCH
from recorder.commands.terminal.output import echo, log_to_stderr
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.errors import NotFoundError, UsageError
from recorder.model.events import Piece
from recorder.model.text import safe_text
from recorder.recordings.names import is_file
from recorder.replay.matching import Miss
from recorder.replay.stdio import ProgramRun, of_program
from recorder.wire.dialects.json_values import as_json, request_object
from recorder.wire.framing.lines import LineParser

READ_BYTES = 64 * 2**10
WAITING = 1_000  # lines that are read and not looked at yet: then the client waits


def stand_in(name: str, source: str, speed: str, db: str | None) -> int:
    """Answer a client in place of a program, until it ends its side.

    Return the exit code: 5 if a line was not recorded.
    """
    log_to_stderr()
    try:
        factor = parse_speed(speed)
    except ValueError as error:
        raise UsageError(f"--speed: {error}") from None
    return asyncio.run(_stand_in(name, source, factor, db))


async def _stand_in(name: str, source: str, speed: float | None, db: str | None) -> int:
    sessions, cassettes = ([], [Path(source)]) if is_file(source) else ([source], [])
    runs = of_program(await loader(db).answers(sessions, cassettes), name)
    if not runs:
        raise NotFoundError(
            f"No run of {name} was recorded in {source}: `recorder show {source}` says what was."
        )
    return await _StandIn(ProgramRun(runs, match_rules()), speed).run()


class _StandIn:
    """The answers to one client."""

    def __init__(self, recorded: ProgramRun, speed: float | None) -> None:
        self._recorded, self._speed = recorded, speed
        self._lines = asyncio.Queue[bytes](WAITING)
        self._open = 0  # answers that are being given
        self._code = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._reading = tasks.create_task(self._answer_all(tasks))
                self._play(tasks, self._recorded.opening)
                Thread(target=self._read, args=(loop,), daemon=True).start()
        except* BrokenPipeError:  # the client has left
            pass
        return self._code

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the client's lines, in a thread: what it has given as stdin may be a file."""
        parser = LineParser()
        while data := os.read(0, READ_BYTES):
            for line in parser.feed(data):
                asyncio.run_coroutine_threadsafe(self._lines.put(line.payload), loop).result()
        rest = [line.payload for line in parser.close()]
        for payload in [*rest, b""]:
            asyncio.run_coroutine_threadsafe(self._lines.put(payload), loop).result()

    async def _answer_all(self, tasks: asyncio.TaskGroup) -> None:
        while line := await self._lines.get():
            found = self._recorded.answer(line)
            if isinstance(found, Miss):
                self._missed(line, found)
            else:
                self._play(tasks, found)

    def _play(self, tasks: asyncio.TaskGroup, answer: Sequence[Piece]) -> None:
        self._open += 1
        tasks.create_task(self._give(answer))

    async def _give(self, answer: Sequence[Piece]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for t_ns, line, _ in answer:
            if self._speed is not None:
                await asyncio.sleep(began_s + t_ns / 1e9 / self._speed - loop.time())
            _write(line)
        self._open -= 1
        if not self._open and self._recorded.is_over:
            self._reading.cancel()  # the program ended by itself, and so does this

    def _missed(self, line: bytes, miss: Miss) -> None:
        """Say that a line was not recorded: to a client that waits for an answer, too.

        Notices need none.
        """
        lines = self._recorded.lines
        refusal = None if lines is None else lines.refusal(request_object(line), miss.line)
        if lines is not None and refusal is None:
            return
        self._code = MISMATCH
        echo(safe_text(miss.line))
        if refusal is not None:
            _write(as_json(refusal).encode() + b"\n")


def _write(line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]
