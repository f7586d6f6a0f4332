"""The login method that Gemini CLI needs in its settings before it uses another address.

Where its settings do not say, `GOOGLE_GEMINI_BASE_URL` has it take a way to log in that it refuses itself ("Invalid
auth method selected."), and no variable or argument chooses another (0.61). Settings of the system would do, but their
folder must be that of root.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from recorder.commands.clients.presets import arguments_of, assigned
from recorder.errors import UsageError

SETTING = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'

_NAMES = re.compile(r"gemini(?:\.js)?|@google/gemini-cli(?:@[\w.-]+)?")
_DECIDED = re.compile(r'"selectedType"\s*:\s*"[^"]|"useExternal"\s*:\s*true')  # of JSON with comments
_DECIDING = ("GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI")
_OF_USER = ".gemini/settings.json"  # at home, and in the folder of a project
_OF_SYSTEM = (
    f"{'/Library/Application Support/GeminiCli' if sys.platform == 'darwin' else '/etc/gemini-cli'}/settings.json"
)
_ASKS_NOBODY = frozenset({"--version", "-v", "--help", "-h", "mcp", "extensions", "skills", "hooks"})


def refuse_undecided(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise `UsageError` with the setting that is missing, if a command is Gemini CLI and would end without it."""
    place = arguments_of(_NAMES, command)
    if place is None or any(word in _ASKS_NOBODY for word in command[place : place + 1]):
        return
    environment = assigned(command[:place], environment)
    if any(environment.get(name) == "true" for name in _DECIDING):
        return
    user = Path(environment.get("GEMINI_CLI_HOME") or Path.home(), _OF_USER)
    system = Path(environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or _OF_SYSTEM)
    defaults = Path(environment.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH") or system.with_name("system-defaults.json"))
    if not any(map(_is_decided, (user, Path(_OF_USER), system, defaults))):
        raise UsageError(
            f"Gemini CLI uses another address only if its settings name a login method: put {SETTING} into {user}, "
            "and its key into GEMINI_API_KEY."
        )


def _is_decided(path: Path) -> bool:
    with suppress(OSError):
        return _DECIDED.search(path.read_text(errors="replace")) is not None
    return False
