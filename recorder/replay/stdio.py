"""A recorded run of a program as requests and answers, for a client that starts it again.

Rules of this file:

* Each line of the client is a request, and what belongs to it its answer: what the format knows by
  a name of it (the response with its id, reports of its progress), and every other line of the
  program up to the next line of the client. Times count from the request on.
* Lines are matched as requests over HTTP are (`recorder.replay.matching`); a response of the
  client, to a request of the program, by its id alone. Ids in an answer are those of the client.
* Pure, and never raises, whatever was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from recorder.model.events import STDIO, Piece, Recording, ResponseHead
from recorder.replay.matching import Match, Matcher, MatchRequest, Miss
from recorder.replay.matching.noise import Rules
from recorder.wire.dialects import by_name
from recorder.wire.dialects.dialect import ProgramLines
from recorder.wire.dialects.json_values import Object, as_json, request_object

_POST = "POST"
_OK = ResponseHead(200, "OK", [])


class _Line(msgspec.Struct):
    """A line of the client, and what belongs to it."""

    t_ns: int
    raw: bytes
    # the number of the line whose ids its answer has: its own, or that which the program asked back
    # for
    request: int
    answer: list[Piece] = []


class ProgramRun:
    """What was recorded of a program, in any number of runs."""

    def __init__(self, runs: Sequence[Recording], rules: Rules) -> None:
        self._run = runs[0]
        self.lines = by_name(runs[0].exchange.api).program
        self._requests: dict[str, str] = {}  # of each line, both by their ids
        self._renumberings: dict[str, Callable[[bytes], bytes] | None] = {}  # of requests so far
        asked: list[Recording] = []
        opened: list[_Line] = []
        for run in runs:
            opening, *lines = _Lines(self.lines).of(run)
            opened.append(opening)
            asked += self._asked(run, lines)
        self.opening: Sequence[Piece] = opened[0].answer  # lines before the first of the client
        self._matcher = Matcher(asked, rules, strict=False)
        self._ends_first = all(_ended_first(run) for run in runs)

    @property
    def is_over(self) -> bool:
        """Return whether the program ends here, without its client."""
        return self._ends_first and not self._matcher.unused()

    def answer(self, line: bytes) -> Sequence[Piece] | Miss:
        """Return what follows a line of the client, with its ids and the times since; or why
        nothing is known.
        """
        request = self._run.request
        asked = MatchRequest(_POST, request.target, request.upstream, [], self._compared(line))
        found = self._matcher.match(asked)
        if not isinstance(found, Match):
            return found
        id = found.recorded.exchange.exchange_id
        self._renumberings[id] = found.renumbered
        renumbering = self._renumberings.get(self._requests[id])
        return [
            piece._replace(raw=_renumbered(renumbering, piece.raw))
            for piece in found.recorded.pieces
        ]

    def _asked(self, run: Recording, lines: Sequence[_Line]) -> Iterator[Recording]:
        for number, line in enumerate(lines, 1):
            id = f"{run.exchange.exchange_id}/{number}"
            self._requests[id] = f"{run.exchange.exchange_id}/{line.request}"
            yield msgspec.structs.replace(
                run,
                exchange=msgspec.structs.replace(run.exchange, exchange_id=id, method=_POST),
                request=msgspec.structs.replace(run.request, method=_POST),
                request_body=self._compared(line.raw),
                response=_OK,
                pieces=tuple(line.answer),
                reads=(),
                sent=(),
                name=f"line {number} of {run.name}",
                number=number,
            )

    def _compared(self, line: bytes) -> bytes:
        """Return a line as it is compared."""
        counts = None if self.lines is None else self.lines.compared(request_object(line))
        return line.rstrip(b"\r\n") if counts is None else as_json(counts).encode()


def of_program(recordings: Sequence[Recording], name: str) -> list[Recording]:
    """Return the runs of a program."""
    return [
        each
        for each in recordings
        if each.request.method == STDIO and each.request.upstream == name
    ]


def _ended_first(run: Recording) -> bool:
    close = run.end.close if run.end is not None else msgspec.UNSET
    return close is not msgspec.UNSET and close.by == "server"


def _renumbered(renumbering: Callable[[bytes], bytes] | None, line: bytes) -> bytes:
    if renumbering is None:
        return line
    message = line.rstrip(b"\r\n")
    return renumbering(message) + line[len(message) :]


class _Lines:
    """The lines of the client in a run, and what belongs to each."""

    def __init__(self, format: ProgramLines | None) -> None:
        self._format = format
        self._lines = [_Line(0, b"", 0)]  # the first one is for what came before them
        # by a name that what belongs to a line has: the number of that
        self._waiting: dict[str, int] = {}
        # by the number of a request: the last answer of the client in it
        self._last: dict[int, int] = {}
        # by what counts of an answer of the client: the number of its request
        self._asked_back: dict[str, int] = {}

    def of(self, run: Recording) -> list[_Line]:
        spoken = [(sent.t_ns, True, sent.raw) for sent in run.sent]
        spoken += [(piece.t_ns, False, piece.raw) for piece in run.pieces]
        for t_ns, is_of_client, raw in sorted(spoken, key=lambda each: each[0]):
            take = self._take_asked if is_of_client else self._take_answer
            take(t_ns, raw, request_object(raw) if self._format else {})
        return self._lines

    def _take_asked(self, t_ns: int, raw: bytes, message: Object) -> None:
        number = len(self._lines)
        request = number
        if self._format is not None:
            self._waiting.update(dict.fromkeys(self._format.asked(message), number))
            request = self._asked_back.pop(as_json(self._format.compared(message)), number)
        self._last[request] = number
        self._lines.append(_Line(t_ns, raw, request))

    def _take_answer(self, t_ns: int, raw: bytes, message: Object) -> None:
        number = len(self._lines) - 1
        if self._format is not None:
            request = self._waiting.get(self._format.answered(message))
            number = number if request is None else self._last[request]
            asks = self._format.asks(message)
            if asks is not None:
                self._asked_back[as_json(asks)] = self._lines[number].request
        line = self._lines[number]
        line.answer.append(Piece(t_ns - line.t_ns, raw))
