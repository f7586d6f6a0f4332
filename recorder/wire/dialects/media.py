"""Images, sound and documents inside JSON, replaced by size and digest. Only the log has their bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_TYPES = ("media_type", "mimeType", "mime_type")  # as Anthropic, Gemini and MCP, and Gemini in snake case say it
_URL_SAFE = str.maketrans("-_", "+/")


def medium(value: Any) -> Mapping[str, Any] | None:
    """Return `{"mime_type", "size_bytes", "sha256"}` of an object that holds bytes as base64; `None` if it is none."""
    if not isinstance(value, dict) or value.get("type") == "text" or not isinstance(value.get("data"), str):
        return None
    mime_type = next((value[name] for name in _TYPES if isinstance(value.get(name), str)), None)
    if mime_type is None:
        return None
    return {"mime_type": mime_type, **digested(value["data"])}


def without_bytes(value: Any) -> Any:
    """Return any JSON with a digest in place of each medium in it: objects that hold base64, and data URLs."""
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
    try:
        coded = "".join(data.split()).translate(_URL_SAFE)
        content = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)
    except ValueError:
        content = data.encode("utf-8", "surrogatepass")
    return {"size_bytes": len(content), "sha256": sha256(content).hexdigest()}
