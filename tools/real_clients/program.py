"""A script over an SDK or a framework, run as `python FILE MODE` or `node FILE MODE`.

It reads its address and key from the variables that `recorder run` or `recorder env` set, and
nothing else. MODE is:

* `loop`: two turns on the demo's weather script: the prompt, the calls of `get_weather`, their
  results, the answer. The answer goes to stdout, and on the last line what the library reported,
  summed over the loop, as JSON: `{"input_tokens": N, "output_tokens": N}`, or `null` if it reports
  none.
* `slow`: one streamed request, whose text goes to stdout as it comes. The runner interrupts it by
  SIGINT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PROMPT = "What is the weather in Paris and Zurich?"
"""What `loop` asks: the demo upstream calls `get_weather` for both."""

SLOW_PROMPT = "Tell me a slow story."
"""What `slow` asks: the demo upstream takes half a minute for the answer."""

LOOP, SLOW = "loop", "slow"


@dataclass(frozen=True, slots=True)
class Program:
    """One row of the table: `packages` are pins for pip (`openai==3.54.0`) or npm
    (`openai@7.57.0`).
    """

    name: str
    version: str  # of the library that the row is about
    language: Literal["python", "node"]
    packages: tuple[str, ...]
    file: str  # in `programs`
    apis: tuple[str, ...]  # upstreams that it asks: openai, anthropic, gemini
    note: str = ""  # stands under the table, in one sentence
    prompt: str = PROMPT  # what `loop` asks: another one where the tools are the library's own
    # of the results of its tools, in what `recorder show` prints
    shows: tuple[str, ...] = ("rain",)
    wiring: tuple[str, ...] = ()  # of `recorder env`; else that of its APIs
    where: str = "1"  # SQL, on `exchange_summary`: the exchanges whose tokens it reports
    websocket: bool = False  # its turns go over WebSocket
