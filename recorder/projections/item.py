"""One output item while it grows, and how it is found again at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.facts import Field, ItemKind, Stated
from recorder.projections.projection import STORABLE_LIMIT


class Item:
    """What is known of an item. `pieces` are the deltas of its texts, or the one text that stands for them."""

    __slots__ = (
        *("kind", "type", "began_ns", "ended_ns", "output_index", "item_id", "role", "phase", "status"),
        *("name", "call_id", "pieces", "annotations", "logprobs", "encrypted", "output", "failed"),
    )

    def __init__(self, kind: ItemKind, type: str, began_ns: int) -> None:
        self.kind: ItemKind = kind
        self.type = type
        self.began_ns = began_ns
        self.ended_ns: int | None = None
        self.output_index: int | None = None
        self.item_id: str | None = None
        self.role: str | None = None
        self.phase: str | None = None
        self.status: str | None = "in_progress"
        self.name: str | None = None
        self.call_id: str | None = None
        self.pieces: dict[tuple[Field, int], list[str]] = {}
        self.annotations: list[str] = []
        self.logprobs: list[str] = []
        self.encrypted = False
        self.output: str | None = None
        self.failed: bool | None = None

    def about(self) -> str:
        """A name for it that another run of the same conversation shares."""
        return self.type if self.output_index is None else f"{self.type} {self.output_index}"

    def take(self, stated: Stated) -> None:
        """All that is stated but its id and texts."""
        self.kind, self.type = stated.kind, stated.type
        self.role = stated.role or self.role
        self.phase = stated.phase or self.phase
        self.status = stated.status or self.status
        self.name = stated.name or self.name
        self.call_id = stated.call_id or self.call_id
        self.encrypted = stated.encrypted or self.encrypted
        self.output = self.output if stated.output is None else stated.output
        self.failed = self.failed if stated.failed is None else stated.failed
        if stated.annotations:
            self.annotations = list(stated.annotations)
        if stated.logprobs is not None:
            self.logprobs = [stated.logprobs]

    def known(self, field: Field, part: int) -> str | None:
        """One of its texts as far as it is known."""
        pieces = self.pieces.get((field, part))
        return None if pieces is None else "".join(pieces)

    def replace(self, field: Field, texts: Mapping[int, str]) -> None:
        """Put other texts in the place of a field's, by part."""
        self.pieces = {key: pieces for key, pieces in self.pieces.items() if key[0] != field}
        self.pieces.update({(field, part): [text] for part, text in texts.items()})

    def parts(self, field: Field) -> list[str]:
        """The texts of a field, in order of their parts."""
        return ["".join(self.pieces[key]) for key in sorted(self.pieces) if key[0] == field]

    def text(self, field: Field) -> str | None:
        """The texts of a field as one; `None` if there is none."""
        parts = self.parts(field)
        return "".join(parts) if parts else None

    def is_long(self) -> bool:
        """Whether it has more than a projection keeps."""
        texts = (sum(map(len, pieces)) for pieces in self.pieces.values())
        extras = (sum(map(len, self.annotations)), sum(map(len, self.logprobs)), len(self.output or ""))
        return max(*texts, *extras) > STORABLE_LIMIT

    def annotations_json(self) -> str | None:
        return f"[{','.join(self.annotations)}]" if self.annotations else None

    def logprobs_json(self) -> str | None:
        """The arrays of all deltas as one array."""
        entries = [array.strip()[1:-1] for array in self.logprobs]
        return f"[{','.join(entry for entry in entries if entry.strip())}]" if self.logprobs else None


class Streamed:
    """The items of the stream, each to be found once among those of the end."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._left = {id(item): item for item in items}
        self._by_id = {item.item_id: item for item in items if item.item_id is not None}
        self._by_place = {(item.output_index, item.type): item for item in items}
        self._by_type: dict[str, list[Item]] = {}
        for item in items:
            self._by_type.setdefault(item.type, []).append(item)

    def take(self, index: int, stated: Stated) -> Item | None:
        """The streamed item that a final one is: by its id, by its place and type, else the next of its type."""
        for item in (self._by_id.get(stated.item_id or ""), self._by_place.get((index, stated.type))):
            if item is not None and self._left.pop(id(item), None) is not None:
                return item
        others = self._by_type.get(stated.type, [])
        while others:
            if self._left.pop(id(item := others.pop(0)), None) is not None:
                return item
        return None
