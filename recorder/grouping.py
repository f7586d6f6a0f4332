"""Which session a request belongs to, and who sent it: rules as data, the first that finds something wins.

Clients rename their headers (twice in 2026 alone), so a rule is one line of a table: who the client is, where the value
stands, what it must look like. This file reads a redacted request head and its body, and knows no other request: where
only the log can tell (`previous_response_id`), it says so. Never raises, whatever the client sent.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property
from urllib.parse import parse_qsl, unquote

import msgspec

from recorder.dialects.payload import too_deep
from recorder.events import PROBE
from recorder.heads import RequestHead
from recorder.projections.chain import Chain, chain

BODY_LIMIT = 16 * 1024 * 1024
"""Larger bodies are not searched: agents send 40 to 70 KB, and what is larger carries files, not sessions."""

NAME_LIMIT = 200
"""Characters of a name: ids have at most 64, and a name should fit a line of a terminal."""

MATCH_LIMIT = 4096
"""Characters that a pattern is tried on: a regular expression may take quadratic time, and a client may be hostile."""

_PROBES = re.compile(
    r"(?:HEAD|OPTIONS) .*|GET (?:/.*)?/(?:models(?:/.*)?|api/tags|health|healthz|ping|version)?", re.DOTALL
)
"""Methods and paths with which clients look whether a server is there, and what it offers. Other paths may stream."""

NEW = "new"
PREVIOUS_RESPONSE = "previous_response_id"
HISTORY = "history"


class Rule(msgspec.Struct, frozen=True):
    """Where a value stands: `header.<name>` or `body.<field>`, and on into JSON with `.<field>`, also inside texts.

    The rule counts for clients whose User-Agent begins with one of `agents` (lower case) or that send the header
    `marker`; for all of them if it names neither. With a `pattern`, its first group is the value.
    """

    name: str
    value: str
    agents: tuple[str, ...] = ()
    marker: str | None = None
    pattern: str | None = None


_OPENCODE = ("opencode/",)

SESSION_RULES: tuple[Rule, ...] = (
    Rule("opencode", "header.x-parent-session-id", agents=_OPENCODE),  # of a sub-agent; its own stands beside it
    Rule("opencode", "header.x-session-id", agents=_OPENCODE),
    Rule("opencode", "header.x-session-affinity", agents=_OPENCODE),
    Rule("opencode", "header.x-opencode-session", agents=_OPENCODE),
    Rule("codex", "header.session-id", agents=("codex",), marker="originator"),
    Rule("codex-until-2026-05", "header.session_id", agents=("codex",), marker="originator"),
    Rule("codex-conversation", "header.conversation_id", agents=("codex",), marker="originator"),
    Rule("claude-code", "header.x-claude-code-session-id"),
    Rule("claude-code-metadata", "body.metadata.user_id.session_id"),
    Rule("claude-code-user-id", "body.metadata.user_id", pattern=r"user_.*_session_([\w-]+)"),
    Rule("gemini-cli", "body.request.session_id", agents=("geminicli",)),
    Rule("copilot-cli", "header.x-client-session-id", agents=("copilot/",)),
    Rule("copilot", "header.x-interaction-id", agents=("githubcopilotchat/", "copilot/")),
    Rule("kilo", "header.x-kilocode-taskid"),
    Rule("mux", "header.x-mux-workspace-id"),
    Rule("coder", "header.x-coder-chat-id"),
    Rule("traceparent", "header.traceparent", pattern=r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-.*"),
    Rule("conversation", "body.conversation.id"),
    Rule("conversation", "body.conversation"),
    Rule(PREVIOUS_RESPONSE, "body.previous_response_id"),
    Rule(PREVIOUS_RESPONSE, "body.thread.previous_message_id"),  # Anthropic Messages, as its SDKs' tool runner sends it
    Rule("prompt_cache_key", "body.prompt_cache_key"),
)

THREAD_RULES: tuple[Rule, ...] = (
    Rule("codex", "header.thread-id"),
    Rule("codex-metadata", "header.x-codex-turn-metadata.thread_id"),
    Rule("claude-code", "header.x-claude-code-agent-id"),
    Rule("opencode", "header.x-session-id", agents=_OPENCODE),
    Rule("opencode", "header.x-opencode-session", agents=_OPENCODE),
)

TURN_RULES: tuple[Rule, ...] = (
    Rule("codex", "header.x-codex-turn-metadata.turn_id"),
    Rule("codex-body", "body.client_metadata.x-codex-turn-metadata.turn_id"),
    Rule("gemini-cli", "body.user_prompt_id", agents=("geminicli",)),
)

ATTEMPT_RULES: tuple[Rule, ...] = (Rule("stainless", "header.x-stainless-retry-count", pattern=r"([0-9]{1,9})"),)

_ALL_RULES = (*SESSION_RULES, *THREAD_RULES, *TURN_RULES, *ATTEMPT_RULES)

HEADERS: frozenset[str] = frozenset(
    {"user-agent"}
    | {rule.value.split(".")[1] for rule in _ALL_RULES if rule.value.startswith("header.")}
    | {rule.marker for rule in _ALL_RULES if rule.marker}
)
"""The headers that a rule looks at, in lower case: redaction must keep their values."""


class Grouping(msgspec.Struct, frozen=True):
    """What a request says of its session, its place in it, and its sender.

    `source` is the rule that found `name`. `new`: nothing did, the request is a session of its own. `probe`: it is no
    conversation either, and stands with the others of its day. With
    `previous_response_id` the name is the id of a response, and the session is the one that has it. With `history`
    there is no name: the session is that of the exchange which the request goes on with, and else a new one.
    """

    name: str | None = None
    source: str = NEW
    thread_id: str | None = None
    turn_id: str | None = None
    attempt: int | None = None
    client: str | None = None
    client_version: str | None = None
    resumes_response_id: str | None = None
    resumes_after: int | None = None
    history: Chain | None = None


def by_history(grouping: Grouping, api: str, head: RequestHead, body: bytes) -> Grouping:
    """The same for a request that no rule found a session for, if it brings a conversation: what that begins with."""
    if grouping.source != NEW or len(body) > BODY_LIMIT:
        return grouping
    found = chain(api, head.target.partition("?")[0], body)
    return grouping if found is None else msgspec.structs.replace(grouping, source=HISTORY, history=found)


def own_name(head: RequestHead, grouping: Grouping) -> str:
    """A name for a session that brings none: its client, and what tells it from the client's other sessions."""
    client = re.sub(r"[^A-Za-z0-9]+", "-", grouping.client or "session").strip("-").lower()
    return f"{client}-{head.session_id[-6:]}"


def group(head: RequestHead, body: bytes | None) -> Grouping:
    """Apply the rules to a request; `body` is the decoded request body, if there is one."""
    request = _Request(head, body)
    name, source = _session(head, request)
    _, attempt = _first(ATTEMPT_RULES, request)
    client, client_version = _client(request.headers.get("user-agent", ""))
    resumes_response_id, resumes_after = _resumed(head)
    return Grouping(
        name,
        source,
        _first(THREAD_RULES, request)[1],
        _first(TURN_RULES, request)[1],
        int(attempt) if attempt else None,
        client,
        client_version,
        resumes_response_id,
        resumes_after,
    )


def _session(head: RequestHead, request: _Request) -> tuple[str | None, str]:
    if given := cleaned(head.session):
        return given, head.session_source or "path"
    rule, name = _first(SESSION_RULES, request)
    if rule:
        return name, rule.name
    response_id = _response_asked_for(head)
    if response_id:
        return response_id, PREVIOUS_RESPONSE
    is_probe = _PROBES.fullmatch(f"{head.method} {head.target.partition('?')[0]}")
    return ("probes", PROBE) if is_probe else (None, NEW)


def _first(rules: Iterable[Rule], request: _Request) -> tuple[Rule | None, str | None]:
    for rule in rules:
        if request.is_from(rule) and (value := cleaned(request.find(rule))):
            return rule, value
    return None, None


class _Request:
    """A request as the rules see it."""

    def __init__(self, head: RequestHead, body: bytes | None) -> None:
        self.headers = {name.lower(): value for name, value in reversed(head.headers)}
        self._agent = self.headers.get("user-agent", "").lower()
        self._raw_body = body

    def is_from(self, rule: Rule) -> bool:
        """Whether the client is one that the rule is for."""
        anyone = not rule.agents and rule.marker is None
        return anyone or rule.marker in self.headers or self._agent.startswith(rule.agents)

    def find(self, rule: Rule) -> str | None:
        """The value that the rule looks for."""
        origin, field, *rest = rule.value.split(".")
        if origin == "body":
            found = _inside(self._body.get(field, b""), rest)
        else:
            header = _utf8(self.headers.get(field, ""))
            found = _inside(header.encode(), rest) if rest else header
        if found is None or rule.pattern is None:
            return found
        match = re.fullmatch(rule.pattern, found) if len(found) <= MATCH_LIMIT else None
        return match[1] if match else None

    @cached_property
    def _body(self) -> Mapping[str, bytes]:
        body = self._raw_body
        return _members(body) if body and len(body) <= BODY_LIMIT else {}


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_leaf = msgspec.json.Decoder(str | int).decode


def _inside(document: bytes, path: Iterable[str]) -> str | None:
    """The text or number at `path` in a JSON document; a text on the way is itself read as JSON."""
    for field in path:
        opened = _leaf(document) if document.startswith(b'"') else None
        document = _members(document if opened is None else opened.encode()).get(field, b"")
    return _leaf(document)


def _leaf(document: bytes) -> str | None:
    try:
        return str(_decode_leaf(document))
    except (msgspec.DecodeError, ValueError):
        return None


def _members(document: bytes) -> Mapping[str, bytes]:
    """The members of a JSON object, still encoded: an agent's whole history is skipped, not built."""
    if not document.lstrip().startswith(b"{") or too_deep(document):
        return {}
    try:
        return {name: bytes(value) for name, value in _decode_members(document).items()}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _members_with_lone_surrogates(document)


def _members_with_lone_surrogates(document: bytes) -> Mapping[str, bytes]:
    """As `_members`, for what only the standard library reads: half an emoji, somewhere in a long history."""
    try:
        return {name: json.dumps(value).encode() for name, value in json.loads(document).items()}
    except (ValueError, RecursionError):
        return {}


def _utf8(header: str) -> str:
    """A header's value as text: latin-1 to HTTP, UTF-8 to most who put anything but ASCII there."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header.encode("utf-8", "replace").decode()


def cleaned(name: str | None) -> str | None:
    """`name` as a column and a terminal can hold it, or `None` if nothing is left of it."""
    kept = (character for character in (name or "")[: 4 * NAME_LIMIT] if unicodedata.category(character) not in _UNSEEN)
    return "".join(kept).strip()[:NAME_LIMIT] or None


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format (bidi), surrogate, line and paragraph separator

_PRODUCT = re.compile(r"([^()]*?)/v?(\d[^\s/;,()]*)")  # codex_exec/0.169.0 (…), GeminiCLI-tui/0.61.0/model
_SDK = re.compile(r"(\S*[A-Za-z]) v?(\d\S*)")  # OpenAI/Python 3.51.0
_FIRST_WORD = re.compile(r"([^\s/;,()]+)()")


def _client(user_agent: str) -> tuple[str | None, str | None]:
    agent = user_agent[: 4 * NAME_LIMIT].strip()
    match = _SDK.match(agent) or _PRODUCT.match(agent) or _FIRST_WORD.match(agent)
    return (cleaned(match[1]), cleaned(match[2])) if match else (None, None)


_RESPONSE = re.compile(
    r"(?:(?:GET|DELETE) /(?:.*/)?responses/([^/]+)(?:/.*)?|POST /(?:.*/)?responses/([^/]+)/cancel)", re.DOTALL
)

_RETRIEVED = re.compile(r"GET /(?:.*/)?responses/([^/]+)|POST /(?:.*/)?responses/([^/]+)/cancel", re.DOTALL)


def _response_asked_for(head: RequestHead) -> str | None:
    """The id in `GET /v1/responses/{id}` and its kin."""
    match = _RESPONSE.fullmatch(f"{head.method} {head.target.partition('?')[0]}")
    return cleaned(unquote(match[1] or match[2])) if match else None


def _resumed(head: RequestHead) -> tuple[str | None, int | None]:
    """Which response a request retrieves, and of a stream, after which number it goes on (`None`: it is whole)."""
    path, _, query = head.target.partition("?")
    match = _RETRIEVED.fullmatch(f"{head.method} {path}")
    response_id = cleaned(unquote(match[1] or match[2])) if match else None
    asked = dict(parse_qsl(query))
    after = re.fullmatch(r"[0-9]{1,18}", asked.get("starting_after", ""))
    is_stream = head.method == "GET" and asked.get("stream", "").lower() in ("true", "1")
    return response_id, int(after[0]) if after and is_stream and response_id else None
