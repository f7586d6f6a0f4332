"""A recorded run of a program as requests and answers, for a client that starts it again.

Rules of this file:

* Each line of the client is a request, and what belongs to it its answer: the response with its id, the reports of its
  progress, and every other line of the program up to the next line of the client. Times count from the request on.
* Lines are matched as requests over HTTP are (`recorder.replay.matching`); a response of the client, to a request of
  the program, by its id alone. Ids in an answer are those of the client.
* Pure, and never raises, whatever was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from recorder.model.events import STDIO, Piece, Recording, ResponseHead
from recorder.replay.matching import Match, Matcher, MatchRequest, Miss
from recorder.replay.matching.noise import Rules
from recorder.wire.dialects.json_values import Object, as_json, object_, request_object, text

_POST = "POST"
_OK = ResponseHead(200, "OK", [])


class _Line(msgspec.Struct):
    """A line of the client, and what belongs to it."""

    t_ns: int
    raw: bytes
    answer: list[Piece]


class ProgramRun:
    """What was recorded of a program, in any number of runs."""

    def __init__(self, runs: Sequence[Recording], rules: Rules) -> None:
        self._run = runs[0]
        opened = [_lines(run) for run in runs]
        self.opening: Sequence[Piece] = opened[0][0].answer  # lines before the first of the client
        asked = [_asked(run, lines[1:]) for run, lines in zip(runs, opened, strict=True)]
        self._matcher = Matcher([each for requests in asked for each in requests], rules, strict=False)
        self._ends_first = all(_ended_first(run) for run in runs)

    @property
    def is_over(self) -> bool:
        """Return whether the program ends here, without its client."""
        return self._ends_first and not self._matcher.unused()

    def answer(self, line: bytes) -> Sequence[Piece] | Miss:
        """Return what follows a line of the client, with its ids and the times since; or why nothing is known."""
        request = self._run.request
        asked = MatchRequest(_POST, request.target, request.upstream, [], _compared(line))
        found = self._matcher.match(asked)
        if not isinstance(found, Match):
            return found
        return [piece._replace(raw=_renumbered(found, piece.raw)) for piece in found.recorded.pieces]


def of_program(recordings: Sequence[Recording], name: str) -> list[Recording]:
    """Return the runs of a program."""
    return [each for each in recordings if each.request.method == STDIO and each.request.upstream == name]


def is_request(message: Object) -> bool:
    """Return whether a message of JSON-RPC waits for a response."""
    return "method" in message and message.get("id") is not None


def _ended_first(run: Recording) -> bool:
    close = run.end.close if run.end is not None else msgspec.UNSET
    return close is not msgspec.UNSET and close.by == "server"


def _asked(run: Recording, lines: Sequence[_Line]) -> Iterator[Recording]:
    for number, line in enumerate(lines, 1):
        exchange = msgspec.structs.replace(
            run.exchange, exchange_id=f"{run.exchange.exchange_id}/{number}", method=_POST
        )
        yield msgspec.structs.replace(
            run,
            exchange=exchange,
            request=msgspec.structs.replace(run.request, method=_POST),
            request_body=_compared(line.raw),
            response=_OK,
            pieces=tuple(line.answer),
            reads=(),
            sent=(),
            name=f"line {number} of {run.name}",
            number=number,
        )


def _compared(line: bytes) -> bytes:
    """Return a line as it is compared: of a response only the id."""
    message = request_object(line)
    if "method" not in message and "id" in message and ("result" in message or "error" in message):
        return as_json({"id": message["id"]}).encode()
    return line.rstrip(b"\r\n")


def _renumbered(found: Match, line: bytes) -> bytes:
    if found.renumbered is None:
        return line
    message = line.rstrip(b"\r\n")
    return found.renumbered(message) + line[len(message) :]


def _lines(run: Recording) -> list[_Line]:
    """Return the lines of the client with what belongs to each; first one for what came before them."""
    lines = [_Line(0, b"", [])]
    waiting: dict[str, _Line] = {}  # by the id of a request, or the token of its progress
    spoken = [(sent.t_ns, True, sent.raw) for sent in run.sent]
    spoken += [(piece.t_ns, False, piece.raw) for piece in run.pieces]
    for t_ns, is_of_client, raw in sorted(spoken, key=lambda each: each[0]):
        message = request_object(raw)
        if is_of_client:
            lines.append(_Line(t_ns, raw, []))
            waiting.update(dict.fromkeys(_names(message), lines[-1]))
        else:
            line = waiting.get(_answered(message), lines[-1])
            line.answer.append(Piece(t_ns - line.t_ns, raw))
    return lines


def _names(message: Object) -> list[str]:
    if not is_request(message):
        return []
    token = object_(message, "params", "_meta").get("progressToken")
    return [f"id {as_json(message['id'])}", f"token {as_json(token)}"]


def _answered(message: Object) -> str:
    """Return which request a line of the program belongs to; an empty text if it is to none."""
    if text(message, "method") is None:
        return f"id {as_json(message['id'])}" if "id" in message else ""
    token = object_(message, "params").get("progressToken")
    return "" if token is None else f"token {as_json(token)}"
