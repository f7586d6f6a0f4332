"""The rules of Ollama's own API: a line for each piece, the last one with `done`.

Must not know: other APIs, and where recordings come from.

The behaviour of the package `ollama` 0.6 for Python was measured; that for JavaScript was read: it
parses each line as JSON and hands it on unchecked.
"""

from __future__ import annotations

from recorder.lint.faults import of_answer
from recorder.lint.rule import rules
from recorder.wire.dialects.ollama.lint.lines import Lines

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
