"""The variables or arguments that point each client at a server of ours.

`{url}` is the server's, without a version: some clients want `/v1` in it, others add it themselves.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePath

from recorder.errors import UsageError
from recorder.wire.providers import BY_NAME, PROVIDERS

_SDKS = [provider.environment for provider in PROVIDERS if provider.is_default]

VARIABLES: Mapping[str, Mapping[str, str]] = {
    **{provider.name: provider.environment for provider in PROVIDERS if provider.environment},
    "copilot": {"COPILOT_PROVIDER_BASE_URL": "{url}/v1", "COPILOT_PROVIDER_TYPE": "openai"},
    "litellm": {
        "OPENAI_API_BASE": "{url}/v1",
        "ANTHROPIC_API_BASE": "{url}/anthropic",
        "GEMINI_API_BASE": "{url}/gemini/v1beta",
    },
    "sdks": dict(chain.from_iterable(variables.items() for variables in _SDKS)),
    "vercel": {"OPENAI_BASE_URL": "{url}/v1", "ANTHROPIC_BASE_URL": "{url}/anthropic/v1"},
}

ALIASES: Mapping[str, str] = {
    **dict.fromkeys(
        ("langchain", "llamaindex", "llama-index", "openai-agents", "qwen", "qwen-code"), "openai"
    ),
    **dict.fromkeys(("claude", "claude-code", "claude-agent-sdk"), "anthropic"),
    **dict.fromkeys(("gemini-cli", "google", "google-genai"), "gemini"),
    **dict.fromkeys(("aider", "dspy"), "litellm"),
    **dict.fromkeys(("llm", "pydantic-ai"), "sdks"),
    **dict.fromkeys(("ai-sdk", "opencode"), "vercel"),
    **dict.fromkeys(("copilot-cli", "github-copilot"), "copilot"),
    "botocore": "boto3",
    "cn": "continue",
    "factory": "droid",
    "kilocode": "kilo",
    "kimi-code": "kimi",
    "pi-coding-agent": "pi",
}
"""Names that people type, and the row of the tables of clients that each means."""

BASES: Mapping[str, str] = dict(
    chain.from_iterable(
        dict.fromkeys(provider.base_variables, provider.name).items() for provider in PROVIDERS
    )
)
"""The variables of all clients, and whose address each is: for a program of which it is not known
what is in it.
"""

OWN_BASES: Mapping[str, str] = {"COPILOT_PROVIDER_BASE_URL": "copilot"}
"""Variables of clients that ask any provider, and the upstream that each is: that of no provider,
whose address may be another one. They are replaced where they are set, because a client without one
asks its own service.
"""

_VERSIONS: Mapping[str, str] = dict(
    chain.from_iterable(provider.base_variables.items() for provider in PROVIDERS)
)
"""What the clients of a variable want in its address; those of the others add a version themselves.
"""

KEYS_OF: Mapping[str, str] = {
    variable: BY_NAME[name].key_variable or "" for variable, name in BASES.items()
}
"""The variable of the key that the SDK of each variable of an address reads."""

CODEX = "codex"

_OF_PACKAGES = {"-p", "--package", "-c", "--call", "-w", "--workspace"}
_LAUNCHERS: Mapping[str, Set[str]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx", "npm", "pnpm", "yarn", "bun"), _OF_PACKAGES),
    "env": {"-u", "--unset", "-C", "--chdir"},
    "nice": {"-n", "--adjustment"},
    "timeout": {"-k", "--kill-after", "-s", "--signal"},
    "time": set(),
    "nohup": set(),
}
"""Programs that run another one, and which of their options have a value after them."""
_RUNNING = ("npm", "pnpm", "yarn", "bun")
_TO_RUN = {"exec", "dlx", "x"}
"""What those of them have to be told that do other things too."""
# what stands between a launcher and its command
_OF_LAUNCHERS = re.compile(r"-.*|\w+=.*|[\d.]+[smhd]?", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_CODEX_NAMES = re.compile(r"codex(?:\.exe|\.js)?|@openai/codex(?:@[\w.-]+)?")
_PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_LOOPBACK = "127.0.0.1"


def codex_place(command: Sequence[str]) -> int | None:
    """Return where in a command line the arguments of Codex begin, if that is what it runs."""
    return arguments_of(_CODEX_NAMES, command)


def arguments_of(names: re.Pattern[str], command: Sequence[str]) -> int | None:
    """Return where in a command line the arguments of a program of these names begin, if that is
    what it runs.
    """
    place = _program_place(command)
    if place is not None and PurePath(command[place]).name in _RUNNING:
        place += 1  # `yarn codex` runs that of a project
    if place is None or place == len(command):
        return None
    name = command[place]
    if not name.startswith("@"):  # of a package, as @openai/codex
        name = PurePath(name).name
    return place + 1 if names.fullmatch(name) else None


def _program_place(command: Sequence[str]) -> int | None:
    """Return the index of the program that a command line runs, after programs that only launch it."""
    launcher, place = "", 0
    while place < len(command):
        word = command[place]
        name = PurePath(word).name
        if launcher and _OF_LAUNCHERS.fullmatch(word):
            place += 2 if word in _LAUNCHERS[launcher] else 1
        elif name in _LAUNCHERS and (
            name not in _RUNNING or {*command[place + 1 : place + 2]} & _TO_RUN
        ):
            launcher = name
            place += 2 if name in _RUNNING else 1
        else:
            return place
    return None


def assigned(words: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with what launchers put into it, as `env NAME=VALUE` does."""
    return {
        **given,
        **{match[1]: match[2] for word in words if (match := _ASSIGNED.fullmatch(word))},
    }


def environment(given: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the environment of a command whose clients use `url`, without any HTTP proxy.

    A client that had an address keeps its own way of putting a path after it: that address is used
    for the whole.
    """
    had = {
        name: _VERSIONS.get(variable, "") for variable, name in BASES.items() if given.get(variable)
    }
    own = {
        variable: f"{url}/{name}" + _VERSIONS.get(variable, "").removeprefix(had.get(name, ""))
        for variable, name in BASES.items()
    }
    own |= {
        variable: f"{url}/{name}" for variable, name in OWN_BASES.items() if given.get(variable)
    }
    return {**given, **own, **past_proxy(given, _LOOPBACK)}


def of_companies(names: Iterable[str], url: str) -> dict[str, str]:
    """Return the variables that only clients of these companies read, with their addresses at
    `url`.
    """
    found: dict[str, str] = {}
    for name in names:
        variables = BY_NAME[name].environment if name in BY_NAME else {}
        found |= {
            variable: value.format(url=url)
            for variable, value in variables.items()
            if variable not in BASES
        }
    return found


def keys_of(names: Collection[str]) -> list[str]:
    """Return the variables without which clients do not start, even if nobody will look at their
    keys.
    """
    companies = [
        provider for provider in PROVIDERS if provider.is_default or provider.name in names
    ]
    keys: list[str] = []
    for company in companies:
        if company.key_variable:
            keys.append(company.key_variable)
        keys += company.other_key_variables
    return keys


def past_proxy(given: Mapping[str, str], host: str) -> dict[str, str]:
    """Return the variables by which clients reach a host without the HTTP proxy of an environment,
    if there is one.
    """
    found: dict[str, str] = {}
    if any(given.get(name) for name in _PROXIES):
        for name in _EXCEPTIONS:
            excepted = given.get(name, "")
            if host not in [each.strip() for each in excepted.split(",")]:
                found[name] = f"{excepted},{host}" if excepted else host
    return found


def program(command: Sequence[str]) -> str:
    """Return the name of the program that a command line runs, after those that only launch it."""
    name = PurePath(command[_program_place(command) or 0]).name
    return name.partition("@")[0] or name  # of a package, without its version


# -- Gemini CLI
#
# Where its settings name no method of login, `GOOGLE_GEMINI_BASE_URL` has it take one that it refuses
# itself ("Invalid auth method selected."), and no variable or argument chooses another (0.61). Settings
# of the system would do, but their folder must be that of root.

LOGIN = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'

_GEMINI_NAMES = re.compile(r"gemini(?:\.js)?|@google/gemini-cli(?:@[\w.-]+)?")
# of JSON with comments
_LOGIN_DECIDED = re.compile(r'"selectedType"\s*:\s*"[^"]|"useExternal"\s*:\s*true')
_LOGIN_DECIDING = ("GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI")
_SETTINGS_OF_USER = ".gemini/settings.json"  # at home, and in the folder of a project
_SYSTEM = (
    "/Library/Application Support/GeminiCli" if sys.platform == "darwin" else "/etc/gemini-cli"
)
_SETTINGS_OF_SYSTEM = f"{_SYSTEM}/settings.json"
_ASKS_NOBODY = frozenset(
    {"--version", "-v", "--help", "-h", "mcp", "extensions", "skills", "hooks"}
)


def refuse_undecided(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise `UsageError` with the setting that is missing, if a command is Gemini CLI and would end
    without it.
    """
    place = arguments_of(_GEMINI_NAMES, command)
    if place is None or any(word in _ASKS_NOBODY for word in command[place : place + 1]):
        return
    environment = assigned(command[:place], environment)
    if any(environment.get(name) == "true" for name in _LOGIN_DECIDING):
        return
    user = Path(environment.get("GEMINI_CLI_HOME") or Path.home(), _SETTINGS_OF_USER)
    system = Path(environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or _SETTINGS_OF_SYSTEM)
    defaults = Path(
        environment.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
        or system.with_name("system-defaults.json")
    )
    if not any(map(_has_login, (user, Path(_SETTINGS_OF_USER), system, defaults))):
        raise UsageError(
            f"Gemini CLI uses another address only if its settings name a login method: put {LOGIN} into {user}, "
            "and its key into GEMINI_API_KEY."
        )


def _has_login(path: Path) -> bool:
    with suppress(OSError):
        return _LOGIN_DECIDED.search(path.read_text(errors="replace")) is not None
    return False
