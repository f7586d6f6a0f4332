"""Names of secrets: of members of JSON, fields of forms, parameters of queries, variables. Pure.

It says so only where it is a name: among the parameters of a request (`fields`), before a `=` (`marks`).
"""

from __future__ import annotations

import re
from functools import lru_cache

_SECRET = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|passphrase|pwd|credential|bearer|jwt"
    r"|(?:api|access|private|account|search|embedding|subscription|master|admin|shared|signing|encryption|license"
    r"|client|service|auth|storage|cosmos)[-_.]?key"
    r"|connection[-_]?string|conn[-_]?str|sas[-_]?(?:url|uri)|key[-_]?string|webhook[-_]?url"
    r"|(?:^|[-_.])(?:auth|authentication|pat|pass|dsn|sas)$"
)
_HARMLESS = re.compile(
    # What a value is, where it is sent and how long it holds; and tokens that are words of a model, or pages of a list.
    r"(?:^|[-_.])(?:types?|kind|method|scheme|name|expir\w*|version|format|status|count|limit|budget|enabled|mode)$"
    r"|(?:endpoint|authorization|token)[-_]?ur[il]$|endpoint$|(?:token|credential)[-_]?ids?$"
    r"|(?:next|previous|prev|page|continuation|sync|stop|start|end|eos|bos|pad|unk|mask|sep|cls|image|audio|special"
    r"|max|min|new|total|prompt|completion|input|output|cached|reasoning|thinking|per)[-_]?(?:page[-_]?)?tokens?$"
    r"|tokens(?:$|[-_])|tokeniz|password[-_]?policy"
)
_LABELS = frozenset({"domain", "description", "title", "in", "grant_type"})

# In capitals a shell's variable: any key is one there, but for these.
_VARIABLE = re.compile(r"(?:.*_)?(?:KEY|PAT|PASS|PWD|DSN)")
_NO_VARIABLE = re.compile(
    r"(?:.*_)?(?:PUBLIC|CACHE|SORT|PRIMARY|FOREIGN|UNIQUE|PARTITION|ROUTING|INDEX|HOT|GROUP|LOOKUP|FUNCTION|HOST)_KEY"
)
_NAME = re.compile(r"[\w.$:\[\]-]{1,100}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)  # the names of an API are few; those of a form's author are bounded
def is_secret(name: str) -> bool:
    """Return whether a value of this name is a secret, however the name is written: `apiKey`, `API_KEY`, `api-key`."""
    if not _NAME.fullmatch(name):
        return False
    if name.isupper():
        if _NO_VARIABLE.fullmatch(name):
            return False
        if _VARIABLE.fullmatch(name):
            return True
    words = _words(name)
    return _SECRET.search(words) is not None and _HARMLESS.search(words) is None


@lru_cache(maxsize=4096)
def is_label(name: str) -> bool:
    """Return whether a value of this name, beside a secret, says what that is and how long it holds."""
    return name in _LABELS or _HARMLESS.search(_words(name)) is not None


def _words(name: str) -> str:
    return _CAMEL.sub("_", name).lower()
