"""A client as the runner sees it: what it is made of, what is typed, and how it reports what it has
used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

UPSTREAMS = ("openai", "anthropic", "gemini")
COLUMNS = ("recorded", "grouped", "shown", "tokens", "replayed", "cassette", "interrupted")
"""The checks, in the order in which they run and stand in the table."""

PROMPT = "Use the shell to count the bottles."
RESULT = "forty-two bottles"  # what the demo's command prints
AGENT_PROMPT = "Please delegate the greeting to a sub-agent."
SUB_PROMPT = "Say hello in one sentence."  # what the demo gives to a sub-agent
SLOW_PROMPT = "Tell me a slow story."
# of the story; the word comes early
SLOW_BEGIN, SLOW_WORD, SLOW_END = "Once there was", "hurry.", "worth it."
TALK_PROMPT = "What is a stream, in two sentences?"
ANSWERED = ("Here is what the tools reported", "A stream is a letter that arrives word by word")
"""How the demo's answers begin: one of them is in each conversation."""


class Said(NamedTuple):
    """What a client printed: its answer, and the tokens it reports, cached ones and reasoning
    included.

    Where it counts otherwise, `where` is the condition on `exchange_summary` for the exchanges that
    it counts, and `input` what it counts as input of each, both in SQL.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    where: str = "1"
    input: str = "input_tokens"


@dataclass(frozen=True, slots=True)
class Client:
    """One row of the table.

    Commands are words; `{demo}` and `{home}` stand for the demo's URL and the home of this client.
    `loop` is what is recorded and replayed; `again` goes on with the same conversation; `slow` is
    interrupted.
    """

    name: str
    version: str  # of what the row is about
    packages: tuple[str, ...]  # pins for npm (`openai@7.57.0`) or pip (`openai==3.54.0`)
    loop: tuple[str, ...]
    slow: tuple[str, ...]
    read: Callable[[str, str], Said]  # stdout, stderr
    again: tuple[str, ...] = ()
    prompt: str = PROMPT  # as typed in `loop`
    shows: tuple[str, ...] = (RESULT,)  # what `recorder show` has besides prompt and answer
    env: Mapping[str, str] = field(default_factory=dict)
    # in its home, before anything is started
    files: Mapping[str, str] = field(default_factory=dict)
    login: tuple[tuple[str, ...], str] = ((), "")  # a command, and what is typed into it
    wiring: tuple[str, ...] = UPSTREAMS  # of `recorder env`, under `recorder serve`
    # by `--upstream`; else it has an address of its own that has to be found
    is_told_upstreams: bool = True
    # upstreams of `recorder serve` besides those of all
    served: Mapping[str, str] = field(default_factory=dict)
    # a pattern of ids that the client makes: in a replay it has new ones, and is answered with
    # those
    own_ids: str = ""
    websocket: bool = False  # its turns go over WebSocket
    has_http: bool = False  # one that has WebSocket, and takes HTTP if that is refused
    is_broken: bool = False  # the first turns of each thread fail, as in `relay`
    # column: why it does not apply, or lies with the client
    waived: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
