"""The rules of Ollama's own API: a line for each piece, the last one with `done`.

Must not know: other APIs, and where recordings come from.

The behaviour of the package `ollama` 0.6 for Python was measured; that for JavaScript was read: it
parses each line as JSON and hands it on unchecked.
"""

from __future__ import annotations

import re

from recorder.lint.faults import is_json, misfit, of_answer, shown
from recorder.lint.rule import Faults, rules
from recorder.lint.shape import Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.json_values import Object

SHAPES = Shapes("""\
chat: message!:message model:text created_at:text done:truth done_reason:text prompt_eval_count:whole eval_count:whole
 total_duration:whole load_duration:whole prompt_eval_duration:whole eval_duration:whole logprobs:[logprob]
generate: response:text thinking:text context:[whole] image:text
 model:text created_at:text done:truth done_reason:text prompt_eval_count:whole eval_count:whole
 total_duration:whole load_duration:whole prompt_eval_duration:whole eval_duration:whole logprobs:[logprob]
message: role!:text content:text thinking:text images:[text] tool_name:text tool_calls:[call]
call: function!:function
function: name!:text arguments!:object
logprob: token!:text logprob!:number top_logprobs:[logprob]
""")

_SEPARATOR = re.compile("[\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
"""What ends a line for `str.splitlines`, besides line feed and carriage return."""


class Lines:
    """Follows the lines of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._shape = (
            "generate" if stream.exchange.target.partition("?")[0].endswith("generate") else "chat"
        )
        self._has_ended = False
        self._is_of_ollama = True  # an app that answers on the same path sends server-sent events

    def feed(self, block: StreamBlock) -> Faults:
        if block.kind == "comment" and not block.raw.strip():
            yield "OL001", block.pos, "it is empty"
            return
        if block.kind != "message":
            self._is_of_ollama = self._is_of_ollama and block.kind == "tail"
            return
        if block.data is None or not is_json(block):
            return
        if _SEPARATOR.search(block.data.decode("utf-8", "replace")):
            yield "OL001", block.pos, ""
        if self._has_ended:
            yield "OL006", block.pos, ""
        elif isinstance(block.payload, dict):
            yield from self._line(block.pos, block.payload)
        else:
            yield "OL002", block.pos, shown(block.payload)

    def end(self) -> Faults:
        """Yield what is missing."""
        if self._is_of_ollama and self._stream.is_seen_whole and not self._has_ended:
            yield "OL004", None, ""

    def _line(self, pos: int, line: Object) -> Faults:
        error = line.get("error")
        if error:
            self._has_ended = True
            if not isinstance(error, str):
                yield "OL007", pos, shown(error)
            return
        for each in SHAPES.misfits(line, self._shape):
            yield "OL003", pos, misfit(each)
        if line.get("done") is True:
            self._has_ended = True
            missing = [name for name in ("done_reason", "eval_count") if line.get(name) is None]
            if missing and line.get("done_reason") not in ("load", "unload"):
                yield "OL005", pos, f"no {' and no '.join(missing)}"


RULES = rules(
    """
OL001 error
A line is empty, or has a line separator of Unicode that is not escaped.
ollama-python reads by `iter_lines` of httpx, which divides at such a character too, and raises
 JSONDecodeError at what is not JSON.
ollama/ollama-python, ollama/_client.py: Client._request; encode/httpx, httpx/_decoders.py: LineDecoder

OL002 error
A line is not a JSON object.
ollama-python raises AttributeError: it looks for an `error` in each line.
ollama/ollama-python, ollama/_client.py: Client._request

OL003 error
A field of a line is missing, or has another type than the API declares.
ollama-python raises ValidationError, which ends the stream: arguments of a call are an object, not a
 text as in Chat Completions.
ollama/ollama-python, ollama/_types.py: ChatResponse, GenerateResponse

OL004 error
The stream ends without a line that is `done`, and without an error.
Clients take a cut answer for a complete one, and count no tokens.
Ollama API, Generate a chat completion: done

OL005 warning
The last line has no reason or no counts of tokens.
Clients count no tokens, and cannot tell an answer that was cut at its limit.
Ollama API, Generate a chat completion: done_reason, prompt_eval_count, eval_count

OL006 warning
Something stands after the line that is `done`.
Clients that stop reading there lose it; the others add it to an answer that they have shown.
Ollama API, Generate a chat completion: done

OL007 error
An error is not a text.
ollama-python raises TypeError in place of its own error, with no word of the reason.
ollama/ollama-python, ollama/_types.py: ResponseError
""",
    of_answer(Lines),
    "ollama",
)
