"""DE: a declared dialect, judged by what was recorded: what it leaves out, and what it looks for in
vain.
"""

from __future__ import annotations

from recorder.lint.rule import Faults, rules
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects import by_name, other
from recorder.wire.dialects.declared import DECLARED
from recorder.wire.dialects.declared.decoder import DeclaredDecoder, Path
from recorder.wire.dialects.json_values import member, object_


class DeclarationWalk:
    """Follows one stream with the declaration of its format."""

    def __init__(self, stream: StreamView) -> None:
        decoder = by_name(stream.exchange.api).decoder()
        assert isinstance(decoder, DeclaredDecoder), "the profile is of declared dialects alone"
        self._declaration = decoder.declaration
        # rules whose path led nowhere, and where that was first
        self._missed: dict[tuple[str, str, Path], int] = {}
        self._hit: set[tuple[str, str, Path]] = set()

    def feed(self, block: StreamBlock) -> Faults:
        if not block.is_event or not isinstance(block.payload, dict):
            return
        payload = object_(block.payload)
        type = self._declaration.type_of(block.name, payload) or ""
        found = self._declaration.rules.get(type)
        if found is None and type not in self._declaration.ignored:
            yield (
                "DE001",
                block.pos,
                f'"{type}"' if type else "it has no type at the places of `type`",
            )
        for meaning, path in found or ():
            rule = type, meaning, path
            if self._leads_to_value(meaning, member(payload, *path)):
                self._hit.add(rule)
            else:
                self._missed.setdefault(rule, block.pos)

    def _leads_to_value(self, meaning: str, value: object) -> bool:
        if meaning == "usage":
            return other.report_of(object_(value), self._declaration.counts) is not None
        return value is not None

    def end(self) -> Faults:
        for rule, pos in self._missed.items():
            type, meaning, path = rule
            if rule not in self._hit:
                yield "DE002", pos, f'{meaning} of "{type}" at {".".join(path)}'


RULES = rules(
    """
DE001 warning
The declaration gives the type of an event no meaning.
Nothing of it is in any view but its bytes: give the type a meaning, or name it in `ignored`.
docs/formats.md, Declare your own

DE002 warning
The path of a declared type leads to nothing in the whole stream.
What it should give is in no view: no event of that type has a value there, or, of usage, a count under a name that
 `tokens` gives or everybody uses.
docs/formats.md, Declare your own
""",
    DeclarationWalk,
    DECLARED,
)
