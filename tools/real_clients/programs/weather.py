"""What the Python programs share: the question, the tool, and how a loop is reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

PROMPT = "What is the weather in Paris and Zurich?"
SLOW_PROMPT = "Tell me a slow story."
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}


def get_weather(city: str, unit: str) -> str:
    """Return the weather in a city."""
    return f"18 degrees {unit} and light rain in {city}"


class Tokens:
    """A sum of what the library reports: cached tokens are part of the input, reasoning is part of
    the output.
    """

    def __init__(self) -> None:
        self.sum: dict[str, int] | None = None

    def add(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Add the counts of one response, or of the whole loop; None is what a library without a
        report gives.
        """
        if input_tokens is None or output_tokens is None:
            return
        had = self.sum or {"input_tokens": 0, "output_tokens": 0}
        self.sum = {
            "input_tokens": had["input_tokens"] + input_tokens,
            "output_tokens": had["output_tokens"] + output_tokens,
        }


def tell(text: str) -> None:
    """Print a piece of a stream at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def main(loop: Callable[[Tokens], str], slow: Callable[[], None]) -> None:
    """Run one of the two: `loop` returns the final answer, `slow` tells the text as it comes."""
    if sys.argv[1:] == ["loop"]:
        tokens = Tokens()
        tell(f"{loop(tokens)}\n{json.dumps(tokens.sum)}\n")
    elif sys.argv[1:] == ["slow"]:
        slow()
    else:
        sys.exit(f"usage: {sys.argv[0]} loop|slow")
