"""Bodies and events without what people and models wrote in them: each text becomes filler. Pure.

`filler` makes it, character by character; `shape` says which strings of a payload are texts.
Must not know: who calls.
"""

from typing import Literal, get_args

Level = Literal["full", "shape", "none"]
"""What is kept of bodies: all, their shape, or a shape that is the same for every text of that
length.
"""

LEVELS: tuple[Level, ...] = get_args(Level)
"""From all to least."""
