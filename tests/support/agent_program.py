"""A program that an editor starts: an agent of ACP or stream-json, by its argument, that passes on
what the model at a URL says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from tests.support.screen import Json
from tests.support.screen_app import asked

PROMPT = {"type": "text", "text": "When?"}
SAID = {"type": "user", "message": {"role": "user", "content": [PROMPT]}, "session_id": "default"}


def called(id: int, method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


GIVEN: dict[str, Sequence[Json]] = {
    "acp": (
        called(0, "initialize", protocolVersion=1),
        called(1, "session/new", cwd="/", mcpServers=[]),
        called(2, "session/prompt", sessionId="s", prompt=[PROMPT]),
    ),
    "stream-json": (SAID,),
}
"""What the client of a format writes."""


def acp(line: Json, model: str) -> Iterator[Json]:
    result: Json = {"protocolVersion": 1, "sessionId": "s"}
    if line["method"] == "session/prompt":
        result = {"stopReason": "end_turn"}
        for text in asked(model):
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": "s", "update": update}
            yield {"jsonrpc": "2.0", "method": "session/update", "params": params}
    yield {"jsonrpc": "2.0", "id": line["id"], "result": result}


def stream_json(line: Json, model: str) -> Iterator[Json]:
    yield {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
    text = "".join(asked(model))
    content = [{"type": "text", "text": text}]
    message = {
        "id": "m-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
    }
    yield {"type": "assistant", "message": message, "session_id": "s"}
    yield {"type": "result", "subtype": "success", "result": text, "session_id": "s"}


SPEAKS = {"acp": acp, "stream-json": stream_json}


def main(format: str, model: str) -> None:
    for line in sys.stdin:
        for told in SPEAKS[format](json.loads(line), model):
            sys.stdout.write(f"{json.dumps(told)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
