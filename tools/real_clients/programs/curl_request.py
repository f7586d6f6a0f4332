"""curl over one of the APIs: one streamed request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from weather import SLOW_PROMPT, Tokens, main, tell

PROMPT = "What is a stream, in two sentences?"
CURL = ("curl", "--silent", "--show-error", "--fail-with-body", "--no-buffer")


def run(url: str, header: str, body: str, text_of: Callable[[Any], str | None]) -> None:
    """Ask at `url`, with a `header` for the key and PROMPT in the JSON `body`; `text_of` an event
    is its new text.
    """

    def ask(prompt: str) -> None:
        headers = ("--header", "content-type: application/json", "--header", header)
        words = [*CURL, *headers, "--data", body.replace("PROMPT", prompt), url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as curl:
            for line in curl.stdout:
                if line.startswith("data: {"):
                    tell(text_of(json.loads(line.removeprefix("data: "))) or "")
        if curl.returncode:
            sys.exit(curl.returncode)

    def loop(_tokens: Tokens) -> str:
        ask(PROMPT)
        return ""

    main(loop, lambda: ask(SLOW_PROMPT))
