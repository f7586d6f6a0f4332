"""The server that Codex CLI would use by itself, and the arguments that point it at a server of
ours instead.

Rules of this file:

* What decides is what Codex reads: its arguments, its environment, the files of `$CODEX_HOME`. They
  come in as data.
* A provider of the user's own keeps its headers, parameters and keys: only its address is replaced.
* Where it cannot be known where Codex would send its requests, it is refused: a prompt is sent to
  no other address.
* No I/O: files are read by the function that is given.

Read in openai/codex (codex-rs: config/src/loader, model-provider-info, login/src/auth) and measured
with 0.169.0.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from recorder.errors import UsageError
from recorder.proxy.routing import Upstream, parse_upstream
from recorder.wire.dialects.json_values import names
from recorder.wire.upstreams import KNOWN, UPSTREAMS, join

Read = Callable[[Path], bytes | None]
Login = Literal["api", "chatgpt", "none", "unknown"]

PUBLIC = f"{UPSTREAMS['openai']}/v1"
CHATGPT = UPSTREAMS["chatgpt"]
KEY = "OPENAI_API_KEY"
UNKNOWN = ""  # the address of a provider that depends on a login that cannot be read

_SYSTEM = Path("/etc/codex/config.toml")
_OVERRULING = (
    Path("/etc/codex/managed_config.toml"),
    "managed_config.toml",
    "cloud-config-bundle-cache.json",
)
"""Files of an administrator: the first two stand above the command line, the last between files
that are read here.
"""
_DECIDING = ("model_provider", "openai_base_url")

_MODES: Mapping[str, Login] = {"apikey": "api", "chatgpt": "chatgpt"}
_LOCAL = ("ollama", "lmstudio")
_LOCAL_BASE = "CODEX_OSS_BASE_URL"
_SIGNED = "amazon-bedrock"

_QUIET = names("""
    login logout mcp plugin completion update doctor sandbox debug apply a archive unarchive
    delete migrate-rollouts migrate-nfs-db cloud features help --help -h --version -V
    """)
"""Commands that ask no model."""
_WITH_VALUE = names("""
    -c --config --enable --disable --remote --remote-auth-token-env -i --image -m --model
    --local-provider -p --profile -s --sandbox -a --ask-for-approval -C --cd --add-dir
    """)
_PATH = "/responses"  # below the address of a provider
_SETTING = re.compile(r"(?:-c=?|--config=)(?P<setting>[\w.-]+\s*=.*)", re.DOTALL)
_BARE = re.compile(r"[\w-]+")


class Provider(NamedTuple):
    """A provider that Codex would use."""

    id: str
    base: str  # where it is; UNKNOWN if only Codex can know
    kind: Literal["openai", "own", "local"]
    login: Login = "none"
    key: str | None = None  # the variable that its key is read from


class Pointed(NamedTuple):
    """The changed arguments and variables of a Codex command line."""

    arguments: list[str]
    variables: dict[str, str]

    def as_options(self) -> Iterator[str]:
        """Yield the arguments, if they are settings, each as an option."""
        for setting in self.arguments:
            yield from ("-c", setting)


class Doors(msgspec.Struct, frozen=True):
    """The addresses at which a server of ours takes the requests of Codex."""

    url: str  # with the prefix of the session
    names: dict[str, str]  # the address of a provider → the upstream that it is here
    # of a replay: the upstreams that Codex asked when it was recorded
    recorded: list[str] | None = None
    websocket: bool = True  # they take WebSocket, too

    def name(self, provider: Provider) -> str:
        """Return the upstream of a provider. Raises `UsageError` if none does."""
        name = self.names.get(provider.base)
        if self.recorded is not None:
            return name if name in self.recorded else (*self.recorded, "openai")[0]
        if name is None:
            raise UsageError(_unnamed(provider))
        return name

    def base_url(self, provider: Provider) -> str:
        """Return the address that a provider is given here."""
        name = self.name(provider)
        versioned = name == "openai" and provider.base == PUBLIC
        versioned |= provider.kind == "local" and provider.base.endswith("/v1")
        return f"{self.url}/{name}{'/v1' if versioned else ''}"


def pointed(
    arguments: Sequence[str], environment: Mapping[str, str], doors: Doors, read: Read
) -> Pointed:
    """Point a command line of Codex, without the program's name, at a server.

    Raises `UsageError`.
    """
    provider = effective(arguments, environment, read)
    # asks nobody, or is pointed there already
    if provider is None or f"{provider.base}/".startswith(f"{doors.url}/"):
        return Pointed(list(arguments), {})
    url = doors.base_url(provider)
    found = override(provider, url, environment, websocket=doors.websocket)
    lacking = (
        doors.recorded is not None
        and provider.key is not None
        and not environment.get(provider.key)
    )
    variables = {provider.key: "none"} if lacking and provider.key else {}
    # A setting that is added behind all others overrides them.
    at = max((after for after, _ in _given(_options(arguments))), default=0)
    return Pointed(
        [*arguments[:at], *found.as_options(), *arguments[at:]], {**found.variables, **variables}
    )


def override(
    provider: Provider, url: str, environment: Mapping[str, str], *, websocket: bool = True
) -> Pointed:
    """Return the settings (as `-c` takes them) and the variables that put a provider at `url`.

    Codex asks its built-in provider over WebSocket, and any other one only if the settings say so.
    """
    if provider.kind == "local":
        return Pointed([], {_LOCAL_BASE: url})
    if provider.kind == "own":
        return Pointed([f"model_providers.{provider.id}.base_url={_quoted(url)}"], {})
    keyed = (
        provider.login == "none" and provider.base == PUBLIC and environment.get(KEY, "").strip()
    )
    credentials = f'env_key="{KEY}"' if keyed else "requires_openai_auth=true"
    transport = ", supports_websockets=true" if websocket else ""
    table = f'{{name="recorder", base_url={_quoted(url)}, wire_api="responses", {credentials}{transport}}}'
    return Pointed(["model_provider=recorder", f"model_providers.recorder={table}"], {})


def _quoted(text: str) -> str:
    """Return a TOML string.

    Its escapes are those of JSON; parts of an address come from foreign files.
    """
    return msgspec.json.encode(text).decode()


def named(
    given: Sequence[Upstream], inherited: Sequence[Upstream], providers: Iterable[Provider]
) -> tuple[dict[str, str], list[Upstream]]:
    """Return the upstream for the address of each provider, and the upstreams that have to be added
    for that.

    An upstream that was `given` is for what it names, if paths stay what they are there; one for
    openai, for all that Codex sends to OpenAI. What other clients `inherited` in a variable is not
    for Codex, which does not read it.
    """
    taken = {each.name for each in given}
    names = {
        each.base.rstrip("/"): each.name
        for each in given
        if join(each.base, _PATH) == f"{each.base}{_PATH}"
    }
    added = dict[str, Upstream]()
    if "openai" in taken:
        names |= {PUBLIC: "openai", CHATGPT: "openai", UNKNOWN: "openai"}
    else:
        names[CHATGPT] = "chatgpt"
        if not any(each.name == "openai" for each in inherited):
            names[PUBLIC] = "openai"
    for each in providers:
        if each.base != UNKNOWN and each.base not in names:
            name = _name(each.id, {*taken, *added})
            names[each.base] = name
            added[name] = upstream(name, each)
    return names, list(added.values())


def upstream(name: str, provider: Provider) -> Upstream:
    """Return the entry of the table for a provider: its address is taken as it is.

    Raises `UsageError`.
    """
    base = provider.base.removesuffix("/v1") if provider.kind == "local" else provider.base
    return Upstream(name, parse_upstream(f"{name}={base}").base + "/")


def _name(id: str, taken: Collection[str]) -> str:
    name = f"codex-{re.sub('[^a-z0-9]+', '-', id.lower()).strip('-')}".rstrip("-")
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)


def own_name(provider: Provider) -> str:
    """Return the name of the upstream for a provider where there is no other."""
    return {PUBLIC: "openai", CHATGPT: "chatgpt"}.get(provider.base) or _name(provider.id, ())


def effective(
    arguments: Sequence[str], environment: Mapping[str, str], read: Read
) -> Provider | None:
    """Return the provider that a command line of Codex would ask; `None` if it asks none.

    Raises `UsageError`.
    """
    words = _options(arguments)
    if _command(words) in _QUIET:
        return None
    if _value(words, "--remote"):
        raise UsageError(
            "`codex --remote` lets another process call the model, which is not recorded: leave it out."
        )
    return _provider(words, _config(words, environment, read), environment, read)


def _provider(
    words: Sequence[str], config: Mapping[str, Any], environment: Mapping[str, str], read: Read
) -> Provider:
    """Return the provider that Codex uses with these settings."""
    id = config.get("model_provider", "openai")
    if "--oss" in words:
        id = _value(words, "--local-provider") or config.get("oss_provider")
        if id not in _LOCAL:
            raise UsageError("The server of `codex --oss` is unknown: add --local-provider.")
    if id in _LOCAL:
        port = environment.get("CODEX_OSS_PORT", "").strip() or urlsplit(KNOWN[id]).port
        base = environment.get(_LOCAL_BASE, "").strip() or f"http://localhost:{port}/v1"
        return Provider(id, base.rstrip("/"), "local")
    login = _login(_command(words), config, environment, read)
    bases: Mapping[Login, str] = {"chatgpt": CHATGPT, "unknown": UNKNOWN}
    default = bases.get(login, PUBLIC)
    if id == "openai":
        return Provider(
            id, str(config.get("openai_base_url") or default).rstrip("/"), "openai", login
        )
    return _own(id, config, login, default)


def _own(id: Any, config: Mapping[str, Any], login: Login, default: str) -> Provider:
    """Return a user's own provider, unchanged from the settings."""
    providers = config.get("model_providers", {})
    settings = providers.get(id) if isinstance(providers, dict) and isinstance(id, str) else None
    if id == _SIGNED or (isinstance(settings, dict) and "aws" in settings):
        raise UsageError(
            f"Codex's provider {id!r} signs its requests for the host that they go to: they cannot pass a recorder."
        )
    if not isinstance(settings, dict) or not _BARE.fullmatch(id):
        raise UsageError(
            f"Codex's model_provider {id!r} is not in its settings, or has a name that -c cannot take: it cannot be "
            "known where its requests go."
        )
    base = settings.get("base_url") or (
        default if settings.get("requires_openai_auth") is True else None
    )
    if not isinstance(base, str):
        raise UsageError(
            f"Codex's provider {id!r} has no base_url in its settings: it cannot be known where it is."
        )
    key = settings.get("env_key")
    return Provider(id, base.rstrip("/"), "own", login, key if isinstance(key, str) else None)


def configured(
    environment: Mapping[str, str], read: Read, profiles: Iterable[str]
) -> Iterator[Provider]:
    """Return all providers that the files of Codex name, with each of its profiles: a script may
    ask any.
    """
    for arguments in ([], *(["--profile", each] for each in profiles)):
        try:
            config = _config(arguments, environment, read)
        except UsageError:
            continue  # told by whoever asks with these settings
        tables = config.get("model_providers")
        ids = (*(tables if isinstance(tables, dict) else ()), "openai", *_LOCAL)
        for id in ids:
            try:
                found = _provider(arguments, {**config, "model_provider": id}, environment, read)
                if found.base != UNKNOWN:
                    upstream("codex", found)
                    yield found
            except UsageError:
                continue


def _config(words: Sequence[str], environment: Mapping[str, str], read: Read) -> dict[str, Any]:
    """Return the settings that decide where requests go.

    A project's own settings may not, and are not read.
    """
    home = codex_home(environment)
    layers = [_file(_SYSTEM, read)]
    if "--ignore-user-config" not in words:
        layers.append(_file(home / "config.toml", read))
        if profile := _value(words, "-p", "--profile"):
            layers.append(_file(home / f"{profile}.config.toml", read))
    for other in _OVERRULING:
        content = read(home / other)
        if content is not None and any(word.encode() in content for word in _DECIDING):
            raise UsageError(
                f"{home / other} sets the provider of Codex, and no argument overrides it."
            )
    config: dict[str, Any] = {}
    for layer in layers:
        _merge(config, layer)
    _merge(config, _settings(words))
    _refuse_old_profile(words, config)
    return config


def _refuse_old_profile(words: Sequence[str], config: Mapping[str, Any]) -> None:
    """Refuse profiles within config.toml: older versions let them override `-c`; newer ones refuse
    them.
    """
    profile, profiles = (
        _value(words, "-p", "--profile") or config.get("profile"),
        config.get("profiles"),
    )
    settings = (
        profiles.get(profile) if isinstance(profiles, dict) and isinstance(profile, str) else None
    )
    if isinstance(settings, dict) and not settings.keys().isdisjoint(_DECIDING):
        raise UsageError(
            f"Codex's profile {profile!r} in config.toml sets the provider, and no argument overrides it: "
            f"move it to {profile}.config.toml."
        )


def codex_home(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Codex keeps its files."""
    given = environment.get("CODEX_HOME")
    return Path(given) if given else Path(environment.get("HOME") or "~").expanduser() / ".codex"


def _file(path: Path, read: Read) -> dict[str, Any]:
    content = read(path)
    if content is None:
        return {}
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"Codex's settings in {path} cannot be read: {error}.") from None


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for name, value in layer.items():
        held = into.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            _merge(held, value)
        else:
            into[name] = value


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """Return the settings given with `-c`, the last one last."""
    found: dict[str, Any] = {}
    for _, setting in _given(words):
        path, _, text = setting.partition("=")
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip().strip("\"'")
        *tables, last = (each.strip() for each in path.split("."))
        place = found
        for name in tables:
            inner = place.get(name)
            place[name] = place = inner if isinstance(inner, dict) else {}
        place[last] = value
    return found


def _given(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each setting of a command line, with the index after it."""
    for at, word in enumerate(words):
        if word in ("-c", "--config"):
            if at + 1 < len(words) and "=" in words[at + 1]:
                yield at + 2, words[at + 1]
        elif match := _SETTING.fullmatch(word):
            yield at + 1, match["setting"]


def _options(arguments: Sequence[str]) -> Sequence[str]:
    """Return the words before `--`; after it, everything is text."""
    words = list(arguments)
    return words[: words.index("--")] if "--" in words else words


def _command(words: Sequence[str]) -> str | None:
    """Return the first word that is neither an option nor its value; or the option that makes Codex
    send nothing.
    """
    is_value = False
    for word in words:
        if not is_value and (word in _QUIET or not word.startswith("-")):
            return word
        is_value = not is_value and word in _WITH_VALUE
    return None


def _value(words: Sequence[str], *names: str) -> str | None:
    """Return the value of an option: the next word, or a part of the same word."""
    for at, word in enumerate(words):
        if word in names and at + 1 < len(words):
            return words[at + 1]
        for name in names:
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
            if len(name) == 2 and word.startswith(name) and len(word) > 2:
                return word[2:]
    return None


def _login(
    command: str | None, config: Mapping[str, Any], environment: Mapping[str, str], read: Read
) -> Login:
    """Return how Codex is logged in.

    A login overrides `OPENAI_API_KEY`, which Codex does not read by itself.
    """
    if command in ("exec", "e") and environment.get("CODEX_API_KEY", "").strip():
        return "api"
    if environment.get("CODEX_ACCESS_TOKEN", "").strip():
        return "unknown"
    store = config.get("cli_auth_credentials_store", "file")
    if store == "ephemeral":
        return "none"
    content = read(codex_home(environment) / "auth.json") if store in ("file", "auto") else None
    if content is None:
        return "none" if store == "file" else "unknown"
    try:
        held = json.loads(content)
    except ValueError:
        return "unknown"
    if not isinstance(held, dict):
        return "unknown"
    mode = held.get("auth_mode")
    if mode is None and held.get(KEY):
        mode = "apikey"
    elif mode is None:
        mode = "chatgpt" if held.get("tokens") else ""
    return _MODES.get(str(mode).lower(), "unknown" if mode else "none")


def _unnamed(provider: Provider) -> str:
    if provider.base == UNKNOWN:
        return (
            "It is unknown whether Codex is logged in with ChatGPT or with a key, because its login is not in "
            f"auth.json: name its server with --upstream openai={CHATGPT} or --upstream openai={PUBLIC}."
        )
    return (
        f"Codex's provider {provider.id!r} was not known when the recorder started: start it with "
        "--upstream NAME=URL, with the base_url of that provider."
    )
