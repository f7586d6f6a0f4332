"""Images, sound and documents inside JSON, replaced by size and digest. Only the log has their
bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

# as Anthropic, Gemini and MCP, and Gemini in snake case say it
_TYPES = ("media_type", "mimeType", "mime_type")
_URL_SAFE = str.maketrans("-_", "+/")

PICTURES: Mapping[str, str] = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "R0lGO": "image/gif",
    "UklGR": "image/webp",
}
"""The types of pictures by the beginning of their base64."""


def picture_type(data: str) -> str | None:
    """Return the type of a picture in base64, as its bytes say; None if it is none of `PICTURES`."""
    beginning = data[:5].translate(_URL_SAFE)
    return next((type for sign, type in PICTURES.items() if beginning.startswith(sign)), None)


def medium(value: Any) -> Mapping[str, Any] | None:
    """Return `{"mime_type", "size_bytes", "sha256"}` of an object that holds bytes as base64;
    `None` if it is none.
    """
    if (
        not isinstance(value, dict)
        or value.get("type") == "text"
        or not isinstance(value.get("data"), str)
    ):
        return None
    mime_type = next((value[name] for name in _TYPES if isinstance(value.get(name), str)), None)
    if mime_type is None:
        return None
    return {"mime_type": mime_type, **digested(value["data"])}


def without_bytes(value: Any) -> Any:
    """Return any JSON with a digest in place of each medium in it: objects that hold base64, and
    data URLs.
    """
    if isinstance(value, str) and value.startswith("data:"):
        head, coded, data = value.partition(";base64,")
        return {"mime_type": head.removeprefix("data:"), **digested(data)} if coded else value
    if isinstance(value, list):
        return [without_bytes(each) for each in value]
    if isinstance(value, dict):
        return medium(value) or {name: without_bytes(each) for name, each in value.items()}
    return value


def digested(data: str) -> Mapping[str, Any]:
    """Return size and SHA-256 of decoded base64; of the text itself if it is not base64."""
    content = decoded(data)
    return {"size_bytes": len(content), "sha256": sha256(content).hexdigest()}


def decoded_size(data: str | None) -> int:
    """Return the size of what a text is the base64 of: of a sound it is the same however that is
    cut.
    """
    return 0 if not data else 3 * len(data.rstrip("=")) // 4


def decoded(data: str) -> bytes:
    """Return what base64 stands for; the text itself if it is not base64."""
    try:
        coded = "".join(data.split()).translate(_URL_SAFE)
        return base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)
    except ValueError:
        return data.encode("utf-8", "surrogatepass")


_SAMPLE_BYTES: Mapping[str, int] = {
    "pcm": 2,
    "l16": 2,
    "pcm16": 2,
    "pcmu": 1,
    "pcma": 1,
    "g711_ulaw": 1,
    "g711_alaw": 1,
}
"""By the name of an uncompressed format, the bytes of a sample. All of them have one channel here.
"""

_RATES: Mapping[str, int] = {"pcmu": 8000, "pcma": 8000, "g711_ulaw": 8000, "g711_alaw": 8000}
_USUAL_RATE = 24_000  # of OpenAI, and of what Gemini says


class Sound:
    """A sound that comes in pieces of base64: what is kept of it is its size, its digest and how
    long it is.
    """

    def __init__(self, mime_type: str, usual_rate: int = _USUAL_RATE) -> None:
        """`mime_type` may name the rate: `audio/pcm;rate=16000`."""
        self._mime_type, self._usual_rate = mime_type, usual_rate
        self._size_bytes = 0
        self._digest = sha256()

    def __deepcopy__(self, memo: Any) -> Sound:
        made = Sound(self._mime_type, self._usual_rate)
        made._size_bytes, made._digest = self._size_bytes, self._digest.copy()
        return made

    def add(self, data: str) -> None:
        """Add a piece, which is base64 by itself."""
        content = decoded(data)
        self._size_bytes += len(content)
        self._digest.update(content)

    def told(self) -> Mapping[str, Any]:
        """Return what is kept of it so far."""
        about = {
            "mime_type": self._mime_type,
            "size_bytes": self._size_bytes,
            "sha256": self._digest.hexdigest(),
        }
        per_s = self._bytes_per_s()
        return {**about, "duration_ms": self._size_bytes * 1000 // per_s} if per_s else about

    def _bytes_per_s(self) -> int | None:
        """Return how many bytes a second has; None if the format is compressed, or nobody here
        knows it.
        """
        essence, *parameters = [each.strip() for each in self._mime_type.lower().split(";")]
        name = essence.removeprefix("audio/")
        rates = [each.removeprefix("rate=") for each in parameters if each.startswith("rate=")]
        stated = int(rates[0]) if rates and rates[0].isdecimal() and len(rates[0]) < 7 else None
        size_bytes = _SAMPLE_BYTES.get(name)
        return size_bytes and size_bytes * (stated or _RATES.get(name, self._usual_rate))
