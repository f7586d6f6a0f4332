"""The faults of a stream of Converse: its types, the fields of its events, its calls, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from recorder.lint.faults import is_json, is_whole_number, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.shape import Misfit, Shapes
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.bedrock_converse.decoder import EXCEPTIONS
from recorder.wire.dialects.json_values import Object, decoded_or_none, object_, text

EVENTS = Shapes("""\
messageStart: role!:text
contentBlockStart: contentBlockIndex!:whole start!:start
start: toolUse:call toolResult:result image:object
call: toolUseId!:text name!:text type:text
result: toolUseId!:text type:text status:text
contentBlockDelta: contentBlockIndex!:whole delta!:delta
delta: text:text toolUse:input reasoningContent:thought toolResult:[object] citation:object image:object
input: input!:text
thought: text:text signature:text redactedContent:text
contentBlockStop: contentBlockIndex!:whole
messageStop: stopReason!:text additionalModelResponseFields:any
metadata: usage!:usage metrics:metrics trace:object performanceConfig:object serviceTier:object
usage: inputTokens!:whole outputTokens!:whole totalTokens!:whole cacheReadInputTokens:whole cacheWriteInputTokens:whole
metrics: latencyMs:whole
""")

_TYPES = frozenset(
    {
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    }
)
_UNIONS: tuple[tuple[str, ...], ...] = (("start",), ("delta",), ("delta", "reasoningContent"))


class Events:
    """Follows the events of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        # of the calls, by index; None: the last one had a fault
        self._inputs: dict[int, str | None] = {}
        self._has_ended = self._has_counts = False
        self._is_whole = True  # neither an exception ended it, nor is a message damaged

    def feed(self, block: StreamBlock) -> Faults:
        if block.kind != "message":  # an app on the same path answers with server-sent events
            self._is_whole = self._is_whole and block.kind == "tail"
        elif block.is_damaged or block.name in EXCEPTIONS:
            self._is_whole = False
        elif block.name not in _TYPES:
            yield "BR004", block.pos, shown(block.name)
            self._is_whole = (
                self._is_whole and block.name is not None and not block.name.endswith("Exception")
            )
        elif is_json(block):
            yield from self._event(block, str(block.name))

    def end(self) -> Faults:
        """Yield what is missing."""
        if not self._stream.is_seen_whole or not self._is_whole:
            return
        if not self._has_ended:
            yield "BR005", None, ""
        elif not self._has_counts:
            yield "BR006", None, ""

    def _event(self, block: StreamBlock, type: str) -> Faults:
        self._has_ended = self._has_ended or type == "messageStop"
        self._has_counts = self._has_counts or type == "metadata"
        if not isinstance(block.payload, dict):
            yield "BR001", block.pos, shown(block.payload)
            return
        event = block.payload
        for each in EVENTS.misfits(event, type):
            yield "BR001" if _breaks_botocore(each) else "BR003", block.pos, misfit(each)
        for path in _UNIONS:
            yield from _union(block.pos, event, path)
        index = event.get("contentBlockIndex")
        follow = self._calls.get(type)
        if follow is not None and is_whole_number(index):
            yield from follow(self, block.pos, index, event)

    def _started(self, pos: int, index: int, event: Object) -> Faults:
        if object_(event, "start").get("toolUse") is not None:
            self._inputs[index] = ""
        return ()

    def _added(self, pos: int, index: int, event: Object) -> Faults:
        call = object_(event, "delta").get("toolUse")
        if call is None:
            return
        if index not in self._inputs:
            yield "BR007", pos, f"block {index}"
            self._inputs[index] = None
        before, added = self._inputs[index], text(object_(call), "input")
        self._inputs[index] = None if before is None or added is None else before + added

    def _stopped(self, pos: int, index: int, event: Object) -> Faults:
        given = self._inputs.pop(index, None)
        if given and not isinstance(decoded_or_none(given.encode("utf-8", "surrogatepass")), dict):
            yield "BR008", pos, shown(given)

    _calls: ClassVar[Mapping[str, Callable[[Events, int, int, Object], Faults]]] = {
        "contentBlockStart": _started,
        "contentBlockDelta": _added,
        "contentBlockStop": _stopped,
    }


def _breaks_botocore(found: Misfit) -> bool:
    return found.value is not None and found.wanted == "an object"


def _union(pos: int, event: Object, path: tuple[str, ...]) -> Faults:
    value: Any = event
    for name in path:
        value = object_(value).get(name)
    if isinstance(value, dict):
        members = [name for name, each in value.items() if each is not None and name != "__type"]
        if len(members) != 1:
            yield "BR002", pos, f"{'.'.join(path)} has {' and '.join(members) or 'none'}"
