"""The upstreams that are known without a setting, and the URL of a path below a base. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from urllib.parse import urlsplit

import msgspec

from recorder.wire.providers import PROVIDERS

KNOWN: Mapping[str, str] = {
    provider.name: provider.base_url for provider in PROVIDERS if provider.base_url
}
"""All of them, by name, with their base URLs."""

UPSTREAMS: Mapping[str, str] = {
    provider.name: KNOWN[provider.name] for provider in PROVIDERS if provider.is_default
}
"""Those that every recorder forwards to."""

HOSTS: Mapping[str, str] = {
    str(parts.hostname): name
    for name, base in UPSTREAMS.items()
    if not (parts := urlsplit(base)).path
}
"""Hosts that are an API and nothing else. Codex asks chatgpt.com for other things too, whatever
login it has.
"""

_OTHERS = {
    name: base
    for name, base in KNOWN.items()
    if base.startswith("https:") and name not in UPSTREAMS
}

COMPANIES_AT: Mapping[str, str] = {
    **HOSTS,
    **{urlsplit(base).netloc: name for name, base in _OTHERS.items()},
}
"""Hosts that name the company of a request. At a port of one's own, which the others have, may be
anything.
"""

_PATTERNS = chain.from_iterable(provider.hosts for provider in PROVIDERS)

API_HOSTS = re.compile("|".join([*_PATTERNS, *map(re.escape, COMPANIES_AT)]))
"""The hosts of model APIs."""

ENDPOINTS = tuple(dict.fromkeys(chain.from_iterable(provider.endpoints for provider in PROVIDERS)))
OTHER_PATHS = tuple(chain.from_iterable(provider.other_paths for provider in PROVIDERS))
VERSION = re.compile(r"/v\d+(?:alpha|beta)?\d*$")
_FIRST_VERSION = re.compile(r"/v\d+(?:alpha|beta)?\d*(?=/|$)")
VERSIONLESS = re.compile(rf"/(?:{'|'.join(ENDPOINTS)})(?:[/:?]|$)")


def is_public(name: str, base: str) -> bool:
    """Return whether an upstream of this name is at its public server."""
    public = KNOWN.get(name)
    return public is not None and urlsplit(base)[:2] == urlsplit(public)[:2]


def url_at(base: str | msgspec.UnsetType, upstream: str, target: str) -> str | None:
    """Return the URL that a recorded request was sent to; None if the address of its upstream is
    not known.

    `base` is the recorded one, which is left out where it is the public one. Clients may put the
    name of the upstream before the path.
    """
    address = base or KNOWN.get(upstream)
    if address is None or address.startswith("http+unix:"):
        return None
    return join(address, below(target, upstream))


def below(target: str, upstream: str) -> str:
    """Return path and query below the address of an upstream; clients may put its name before them."""
    rest = target.removeprefix(f"/{upstream}")
    return rest if rest != target and rest.startswith("/") else target


def join(base: str, rest: str) -> str:
    """Return the URL of the path `rest` (with its query) below `base`; the version may be in both,
    or in one.

    Below a base that ends in a slash a path is unchanged: the base is a client's own, which knows
    what belongs there.
    """
    if base.endswith("/"):
        return base[:-1] + rest
    path = urlsplit(base).path
    # an SDK that puts all of it after the host
    if VERSION.search(path) and rest.startswith(f"{path}/"):
        return base + rest[len(path) :]
    versions = VERSION.search(base), _FIRST_VERSION.match(rest)
    if versions[0] and versions[1] and versions[0][0] == versions[1][0]:
        return base + rest[len(versions[1][0]) :]
    if not path and VERSIONLESS.match(rest):
        return f"{base}/v1{rest}"
    return base + rest
