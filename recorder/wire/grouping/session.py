"""The session of a request, and its sender: rules as data, the first that finds something wins.

This file reads a redacted request head and its body, and knows no other request: if only the log
can decide (`previous_response_id`), the result says so. `recorder.wire.grouping.rules` defines how
a rule finds a value. Never raises, whatever the client sent.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote

import msgspec

from recorder.model.events import PROBE, WEBSOCKET, RequestHead
from recorder.wire.dialects import by_path, tells_targets, told_by_server
from recorder.wire.grouping.history import Chain, chain
from recorder.wire.grouping.probes import is_probe
from recorder.wire.grouping.purpose import CLAIMED
from recorder.wire.grouping.rules import (
    BODY_LIMIT,
    NAME_LIMIT,
    Claims,
    ValueRule,
    cleaned,
    first,
    headers,
    value_rules,
)

NEW = "new"
PREVIOUS_RESPONSE = "previous_response_id"
HISTORY = "history"
# the id of the session that a provider keeps, in the path, or in the answer that makes it
HOSTED = "hosted"
# MCP without sessions, since 2026-07-28, or with a secret one, in 2024: those to one server in a
# day
OF_DAY = "day"
FIELD = "field"  # of a body, that the user's settings name

SESSION_RULES = value_rules(r"""
# Of a sub-agent; its own stands beside it
opencode header.x-parent-session-id agents=opencode/,kilo-code/
opencode header.x-session-id agents=opencode/,kilo-code/
opencode header.x-session-affinity agents=opencode/,kilo-code/
opencode header.x-opencode-session agents=opencode/,kilo-code/
codex header.session-id agents=codex marker=originator
codex-until-2026-05 header.session_id agents=codex marker=originator
codex-conversation header.conversation_id agents=codex marker=originator
claude-code header.x-claude-code-session-id
claude-code-metadata body.metadata.user_id.session_id
claude-code-user-id body.metadata.user_id pattern=user_.*_session_([\w-]+)
gemini-cli body.request.session_id agents=geminicli
copilot-cli header.x-client-session-id agents=copilot/
copilot header.x-interaction-id agents=githubcopilotchat/,copilot/
kilo header.x-kilocode-taskid
mux header.x-mux-workspace-id
coder header.x-coder-chat-id
# What gateways and tools for tracing read. An app that sends one of them means a conversation by it.
open-webui header.x-openwebui-chat-id
litellm header.x-litellm-session-id
litellm body.litellm_session_id
litellm body.metadata.litellm_session_id
helicone header.helicone-session-id
langfuse header.langfuse_session_id
docker-agent header.x-cagent-session-id
# OpenRouter, LLM Gateway
session-id header.x-session-id
session-id header.x-session-affinity
session-id header.x-conversation-id
# OpenRouter
session-id body.session_id
# LiteLLM with Langfuse
session-id body.metadata.session_id
session-id body.metadata.conversation_id
# One trace may have several requests: these tools group them by it.
portkey header.x-portkey-trace-id
litellm header.x-litellm-trace-id
langfuse header.langfuse_trace_id
traceparent header.traceparent pattern=[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-.*
conversation body.conversation.id
conversation body.conversation
previous_response_id body.previous_response_id
previous_response_id body.previous_interaction_id
# Anthropic Messages, as its SDKs' tool runner sends it
previous_response_id body.thread.previous_message_id
# A2A: the task that a message goes on with
previous_response_id body.params.message.taskId
# MCP: the server gives the id with its answer to the first request
previous_response_id header.mcp-session-id
prompt_cache_key body.prompt_cache_key
""")

THREAD_RULES = value_rules("""
codex header.thread-id
codex-metadata header.x-codex-turn-metadata.thread_id
claude-code header.x-claude-code-agent-id
opencode header.x-session-id agents=opencode/,kilo-code/
opencode header.x-opencode-session agents=opencode/,kilo-code/
""")

TURN_RULES = value_rules("""
codex header.x-codex-turn-metadata.turn_id
codex-body body.client_metadata.x-codex-turn-metadata.turn_id
gemini-cli body.user_prompt_id agents=geminicli
""")

HELPER_RULES = value_rules("""
gemini-cli-router body.generationConfig.responseJsonSchema.properties.complexity_score.type agents=geminicli
gemini-cli-router body.generationConfig.responseJsonSchema.properties.model_choice.type agents=geminicli
""")
"""Requests that a client makes for itself and that name no conversation: which model is to answer a
question.
"""

ATTEMPT_RULES = value_rules("stainless header.x-stainless-retry-count pattern=([0-9]{1,9})")

_ALL_RULES = (*SESSION_RULES, *THREAD_RULES, *TURN_RULES, *ATTEMPT_RULES)

HEADERS: frozenset[str] = headers((*_ALL_RULES, *CLAIMED)) | {"user-agent"}
"""The headers that a rule looks at, in lower case: redaction must keep their values."""


NO_NUMBER = 0
"""The number after which a stream continues whose events have none, but ids: that of a hosted
session, for one.
"""


class Grouping(msgspec.Struct, frozen=True):
    """The session that a request names, its place in it, and its sender.

    `source` is the rule that found `name`. `new`: nothing did, the request is a separate session.
    `probe`: it is no conversation either, and is grouped with the others of its day; `day`: so is
    one of MCP, with those to its server. With `previous_response_id` the name is the id of a
    response, and the session is the one that has it. With `history` there is no name: the session
    is that of the exchange which the request continues, else a new one.
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
    """Return the grouping by history of a request that no rule found a session for, if it brings a
    conversation.
    """
    if grouping.source != NEW or len(body) > BODY_LIMIT:
        return grouping
    found = chain(api, head.target.partition("?")[0], body)
    return (
        grouping
        if found is None
        else msgspec.structs.replace(grouping, source=HISTORY, history=found)
    )


def by_answer(
    grouping: Grouping, head: RequestHead, name: str | None, *, is_stream: bool
) -> Grouping:
    """Return the grouping of a request that makes a session of its provider, by the id that the
    answer said.

    A stream in the answer is the first part of that of the session.
    """
    hosted_id = cleaned(name)
    if hosted_id is None:
        return grouping
    if is_stream:
        grouping = msgspec.structs.replace(
            grouping, resumes_response_id=hosted_id, resumes_after=NO_NUMBER
        )
    is_given = cleaned(head.session) is not None
    return (
        grouping if is_given else msgspec.structs.replace(grouping, name=hosted_id, source=HOSTED)
    )


def own_name(head: RequestHead, grouping: Grouping) -> str:
    """Return a name for a session that brings none: its client, and what distinguishes it from the
    client's other sessions."""
    client = re.sub(r"[^A-Za-z0-9]+", "-", grouping.client or "session").strip("-").lower()
    return f"{client}-{head.session_id[-6:]}"


def group(head: RequestHead, body: bytes | None) -> Grouping:
    """Apply the rules to a request; `body` is the decoded request body, if there is one."""
    request = Claims(head.headers, body, is_message=head.method == WEBSOCKET)
    name, source = _session(head, request)
    _, attempt = first(ATTEMPT_RULES, request)
    client, client_version = _client(request.headers.get("user-agent", ""))
    _, hosted_thread_id = _hosted(head)
    resumes_response_id, resumes_after = _resumed(head)
    return Grouping(
        name,
        source,
        hosted_thread_id or first(THREAD_RULES, request)[1],
        first(TURN_RULES, request)[1],
        int(attempt) if attempt else None,
        client,
        client_version,
        resumes_response_id,
        resumes_after,
    )


def _session(head: RequestHead, request: Claims) -> tuple[str | None, str]:
    if given := cleaned(head.session):
        return given, head.session_source or "path"
    hosted_id, _ = _hosted(head)
    if hosted_id:
        return hosted_id, HOSTED
    dialect = by_path(head.method, head.target)
    own_rules = [
        ValueRule(FIELD, f"body.{field}")
        for field in (*(head.session_fields or ()), *dialect.session_fields)
    ]
    rule, name = (
        first((*own_rules, *SESSION_RULES), request) if own_rules else first(SESSION_RULES, request)
    )
    if rule:
        return name, rule.name
    response_id = (
        _id_in(dialect.response_routes.asked_for, head) if dialect.response_routes else None
    )
    if response_id:
        return response_id, PREVIOUS_RESPONSE
    is_told = told_by_server(head.method, head.target) is not None
    is_telling = tells_targets(head.method, head.target) and _OF_BROWSERS.isdisjoint(
        request.headers
    )
    if "mcp-method" in request.headers or is_told or is_telling:
        return f"mcp-{head.upstream}", OF_DAY
    is_of_none = is_probe(head.method, head.target) or first(HELPER_RULES, request)[0]
    return ("probes", PROBE) if is_of_none else (None, NEW)


_OF_BROWSERS = frozenset({"origin", "referer", "sec-fetch-mode"})
"""The headers of a page: on its `/sse` is a stream of the app's own."""

# codex_exec/0.169.0 (…), GeminiCLI-tui/0.61.0/model
_PRODUCT = re.compile(r"([^()]*?)/v?(\d[^\s/;,()]*)")
_SDK = re.compile(r"(\S*[A-Za-z]) v?(\d\S*)")  # OpenAI/Python 3.51.0
_FIRST_WORD = re.compile(r"([^\s/;,()]+)()")


def _client(user_agent: str) -> tuple[str | None, str | None]:
    agent = user_agent[: 4 * NAME_LIMIT].strip()
    match = _SDK.match(agent) or _PRODUCT.match(agent) or _FIRST_WORD.match(agent)
    return (cleaned(match[1]), cleaned(match[2])) if match else (None, None)


def _hosted(head: RequestHead) -> tuple[str | None, str | None]:
    """Return the id of the session that a provider keeps, and of a thread of it, as the path names
    them.
    """
    path = head.target.partition("?")[0]
    hosted = by_path(head.method, path).hosted
    match = hosted.path.search(path) if hosted else None
    return (
        (cleaned(unquote(match["session"])), cleaned(unquote(match["thread"] or "")))
        if match
        else (None, None)
    )


def _id_in(pattern: re.Pattern[str] | None, head: RequestHead) -> str | None:
    """Return the id of a response in the path of a request, as in `GET /v1/responses/{id}`."""
    match = pattern.search(f"{head.method} {head.target.partition('?')[0]}") if pattern else None
    found = next(filter(None, match.groups()), None) if match else None
    return cleaned(unquote(found)) if found else None


def _resumed(head: RequestHead) -> tuple[str | None, int | None]:
    """Return the id of the response that a request retrieves, and the number after which a stream
    continues (`None`: whole).
    """
    path, _, query = head.target.partition("?")
    dialect = by_path(head.method, path)
    if dialect.hosted is not None and dialect.hosted.stream.fullmatch(f"{head.method} {path}"):
        return "/".join(filter(None, _hosted(head))), NO_NUMBER
    routes = dialect.response_routes
    response_id = _id_in(routes.retrieved, head) if routes else None
    if routes is None or response_id is None:
        return response_id, None
    parameters = dict(parse_qsl(query))
    after = parameters.get(routes.after, "")
    is_stream = head.method == "GET" and parameters.get("stream", "").lower() in ("true", "1")
    if not is_stream or not after:
        return response_id, None
    if routes.event_id is not None:
        return response_id, NO_NUMBER
    return response_id, int(after) if re.fullmatch(r"[0-9]{1,18}", after) else None
