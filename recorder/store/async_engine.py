"""`create_async_engine` of SQLAlchemy, without the ORM.

`sqlalchemy.ext.asyncio` loads the ORM for its sessions, which takes a fifth of the start of a
command. Its module `engine` needs nothing of that, so it is loaded with an empty package around it,
which is taken away again: whoever imports the package later gets all of it, with this same module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["AsyncEngine", "create_async_engine"]

_PACKAGE = "sqlalchemy.ext.asyncio"


def _engine_module() -> ModuleType:
    if _PACKAGE in sys.modules:
        return import_module(f"{_PACKAGE}.engine")
    spec = find_spec(_PACKAGE)
    assert spec is not None
    package = sys.modules[_PACKAGE] = ModuleType(_PACKAGE)
    package.__path__ = spec.submodule_search_locations or []
    try:
        return import_module(f"{_PACKAGE}.engine")
    finally:
        del sys.modules[_PACKAGE]


if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
else:
    _engine = _engine_module()
    AsyncEngine, create_async_engine = _engine.AsyncEngine, _engine.create_async_engine
