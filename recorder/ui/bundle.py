"""The viewer's static files as one HTML page, which needs no server and no network.

Rules of this file:

* A module becomes a function in one inline script, those that it imports before it. That needs no
  parser, since the modules keep to one form (`_IMPORT`, `_EXPORT`); what has another form is an
  error, not a broken page.
* A page that is imported when it is opened (`import("./page.js")`) is in the bundle if the caller
  names it.
* Nothing but what is in the page may run: its Content-Security-Policy has the digests of its script
  and its style.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import NamedTuple

ENTRY, STYLE = "file.js", "file.css"
PAGES = ("player/player.js",)

_IMPORT = re.compile(r'^import \{ ([^{}]+) \} from "(\.{1,2}/[^"]+\.js)";$', re.MULTILINE)
_DYNAMIC = re.compile(r'=> import\("(\./[^"]+\.js)"\)')
_EXPORT = re.compile(r"^export ((?:async )?function\*? |const |class )(\w+)", re.MULTILINE)
_ANY = re.compile(r"^\s*(?:import|export)\b(?!\()[^\n]*", re.MULTILINE)
_STYLE = re.compile(r'^<link rel="stylesheet" href="/static/([^"]+)">\n', re.MULTILINE)
_HEAD_LINES = re.compile(r"^<(?:link|script)\b[^\n]*\n", re.MULTILINE)
_ENDS_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)

NOT_HERE = "This page is not in the file: open the recording with `recorder ui`."


class Bundle(NamedTuple):
    """The parts of the page that are the same for every recording."""

    head: str  # up to the data
    tail: str  # after it

    def page(self, data: str) -> str:
        """Return the page with the element that holds its data."""
        return f"{self.head}{data}{self.tail}"


@cache
def bundle() -> Bundle:
    """Return the bundle. Raises `ValueError` if a file has a form that it cannot take."""
    static = files("recorder.ui") / "static"
    index = (static / "index.html").read_text("utf-8")
    script = _script(modules(static, ENTRY, PAGES))
    styles = [static / name for name in (*_STYLE.findall(index), STYLE)]
    style = "".join(each.read_text("utf-8") for each in styles if each.is_file())
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    security = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    page = _HEAD_LINES.sub("", index).replace('data-source="http"', 'data-source="file"')
    page = _once(page, '<meta charset="utf-8">\n', f'<meta charset="utf-8">\n{security}')
    page = _once(page, "</head>", f"<style>{style}</style>\n</head>")
    head, tail = page.split("</body>")
    return Bundle(head, f"<script>{script}</script>\n</body>{tail}")


def modules(static: Traversable, entry: str, pages: Collection[str]) -> dict[str, str]:
    """Return the modules that an entry and some pages need, by path, those that another one imports
    before it.

    Raises `ValueError` if modules import each other in a circle.
    """
    found: dict[str, str] = {}
    waiting: list[str] = []

    def visit(path: str) -> None:
        if path in waiting:
            raise ValueError(
                f"{' imports '.join([*waiting[waiting.index(path) :], path])}: that is a circle."
            )
        if path in found:
            return
        waiting.append(path)
        source = static.joinpath(path).read_text("utf-8")
        for _, given in _IMPORT.findall(source):
            visit(_resolved(path, given))
        waiting.pop()
        found[path] = source

    for path in (*pages, entry):
        visit(path)
    return found


def _script(sources: dict[str, str]) -> str:
    """Return one script of modules, in their order."""
    for path, source in sources.items():
        if _ENDS_SCRIPT.search(source):
            raise ValueError(
                f"{path} has the end of a script or a comment of HTML in it: write it in two parts."
            )
    return '"use strict";\n' + "".join(
        wrapped(path, source, sources) for path, source in sources.items()
    )


def wrapped(path: str, source: str, bundled: Collection[str]) -> str:
    """Return a module as a constant with what it exports.

    Raises `ValueError` for another form of import or export.
    """
    names = [name for _, name in _EXPORT.findall(source)]
    inner = _IMPORT.sub(
        lambda match: f"const {{ {_renamed(match[1])} }} = {_constant(_resolved(path, match[2]))};",
        source,
    )
    inner = _EXPORT.sub(r"\1\2", inner)
    inner = _DYNAMIC.sub(lambda match: _dynamic(_resolved(path, match[1]), bundled), inner)
    if left := _ANY.search(inner):
        raise ValueError(f"{path} has a form that no bundle can hold: {left[0].strip()}")
    return (
        f"const {_constant(path)} = (() => {{\n{inner}\nreturn {{ {', '.join(names)} }};\n}})();\n"
    )


def _dynamic(path: str, bundled: Collection[str]) -> str:
    page = (
        f"Promise.resolve({_constant(path)})"
        if path in bundled
        else f"Promise.reject(new Error({NOT_HERE!r}))"
    )
    return f"=> {page}"


def _resolved(path: str, given: str) -> str:
    return normpath(join(dirname(path), given))


def _constant(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))


def _renamed(names: str) -> str:
    return re.sub(r"\b(\w+) as (\w+)\b", r"\1: \2", names)


def _once(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"index.html must have {old.strip()!r} once.")
    return text.replace(old, new)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
