"""JSON that nests deeper than anybody sends: every command reads it, or says in a sentence that it
does not.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.server import run

DEPTHS = (255, 700, 985, 2_000)
"""Below the limit of decoders; below what the stack takes; at its end, where only some of our
callers have room.
"""
COMMANDS = (
    ("show", "NAME"),
    ("show", "NAME", "--request"),
    ("show", "NAME", "--json"),
    ("lint", "NAME", "--json"),
    ("diff", "NAME", "NAME", "--json"),
    ("show", "NAME", "--cache"),
    ("export", "NAME", "--format", "html"),
    ("export", "NAME", "--format", "chat"),
    ("export", "NAME", "--format", "cassette"),
    ("export", "NAME", "--format", "otlp-json"),
    ("export", "NAME", "--format", "payloads"),
)

STREAMS = {
    "anthropic": """event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":DEEP}}

event: error
data: DEEP

""",
    "openai-chat": """data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"x","deep":DEEP}}]}

data: DEEP

""",
    "openai-responses": """event: response.completed
data: {"type":"response.completed","response":{"id":"r","output":[{"type":"message","content":DEEP}]}}

""",
    "gemini": """data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":DEEP}}]}}]}

""",
}


@pytest.mark.long
@pytest.mark.parametrize("brackets", ["[]", "{}"], ids=["arrays", "objects"])
@pytest.mark.parametrize("api", STREAMS)
def test_every_command_reads_it_or_says_that_it_does_not(
    api: str, brackets: str, tmp_path: Path
) -> None:
    db = tmp_path / "log.db"
    opening, closing = ("[", "]") if brackets == "[]" else ('{"a":', "}")
    for depth in DEPTHS:
        deep = f"{opening * depth}1{closing * depth}"
        (tmp_path / "stream").write_text(STREAMS[api].replace("DEEP", deep))
        keys = ("messages", "input", "contents", "tools", "system")
        (tmp_path / "request").write_text("{" + ",".join(f'"{key}":{deep}' for key in keys) + "}")
        options = (
            "--dialect",
            api,
            "--request",
            tmp_path / "request",
            "--session",
            f"deep-{depth}",
        )
        imported = run(db, "import", tmp_path / "stream", *options)
        if imported.code:
            assert "it is not JSON" in imported.err
            continue
        for command in COMMANDS:
            ran = run(db, *(word.replace("NAME", f"deep-{depth}") for word in command))
            assert "Traceback" not in ran.err, command
    sessions = json.loads(run(db, "sessions", "--json").out)
    assert sessions
