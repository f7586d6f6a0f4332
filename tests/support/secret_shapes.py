"""One secret of every shape, made up: what tests plant and look for."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

ALPHANUMERIC = string.ascii_letters + string.digits
URL_SAFE = ALPHANUMERIC + "-_"

HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + string.digits

# how a secret begins, and of what and how long the rest of it is, as the issuers document it
ISSUED = (
    *(("sk_live_", ALPHANUMERIC, 24), ("rk_live_", ALPHANUMERIC, 24), ("whsec_", ALPHANUMERIC, 32)),
    *(("npm_", ALPHANUMERIC, 36), ("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 100), ("rubygems_", HEX, 48)),
    *(("dckr_pat_", URL_SAFE, 27), ("hvs.", URL_SAFE, 90), ("xapp-1-A012B3CD4-", ALPHANUMERIC, 64)),
    *(
        ("pplx-", ALPHANUMERIC, 48),
        ("r8_", ALPHANUMERIC, 37),
        ("fw_", ALPHANUMERIC, 24),
        ("csk-", HEX, 48),
    ),
    *(
        ("tgp_v1_", URL_SAFE, 43),
        ("nvapi-", URL_SAFE, 64),
        ("ABSKQmVkcm9ja0FQSUtleS", ALPHANUMERIC, 108),
    ),
    *(
        ("sk_", HEX, 48),
        ("jina_", ALPHANUMERIC, 60),
        ("pa-", ALPHANUMERIC, 43),
        ("pcsk_", ALPHANUMERIC, 70),
    ),
    *(("tvly-dev-", ALPHANUMERIC, 32), ("fc-", HEX, 32), ("e2b_", HEX, 40)),
    *(
        ("SK", HEX, 32),
        ("shpat_", HEX, 32),
        ("dop_v1_", HEX, 64),
        ("dapi", HEX, 32),
        ("cfut_", ALPHANUMERIC, 48),
    ),
    *(("lin_api_", ALPHANUMERIC, 40), ("ntn_", ALPHANUMERIC, 46), ("secret_", ALPHANUMERIC, 43)),
    *(
        ("sntrys_", ALPHANUMERIC, 64),
        ("sbp_", HEX, 40),
        ("sb_secret_", URL_SAFE, 31),
        ("figd_", URL_SAFE, 40),
    ),
    *(
        ("glsa_", ALPHANUMERIC, 41),
        ("NRAK-", CAPITALS, 27),
        ("PMAK-", HEX, 59),
        ("ATATT3", URL_SAFE, 180),
    ),
    *(
        ("pscale_tkn_", URL_SAFE, 43),
        ("GOCSPX-", URL_SAFE, 28),
        ("LTAI", ALPHANUMERIC, 20),
        ("glrt-", URL_SAFE, 20),
    ),
    *(("ops_eyJ", ALPHANUMERIC, 250),),
)


def made(alphabet: str, size: int, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=size))


def pem(name: str, lines: int = 6, seed: int = 0) -> str:
    body = "\n".join(made(ALPHANUMERIC + "+/", 64, 10 * seed + line) for line in range(lines))
    return f"-----BEGIN {name}-----\n{body}\nAbC=\n-----END {name}-----"


def secrets_of(seed: int) -> dict[str, str]:
    """One of each shape, other ones for another seed."""
    return {
        "openai": "sk-" + made(ALPHANUMERIC, 48, seed),
        "openai project": "sk-proj-" + made(URL_SAFE, 156, seed),
        "openai service": "sk-svcacct-" + made(URL_SAFE, 60, seed),
        "anthropic": "sk-ant-api03-" + made(URL_SAFE, 95, seed),
        "openrouter": "sk-or-v1-" + made("0123456789abcdef", 64, seed),
        "deepseek": "sk-" + made("0123456789abcdef", 32, seed),
        "google": "AIza" + made(URL_SAFE, 35, seed),
        "google oauth": "ya29." + made(URL_SAFE, 60, seed),
        "aws": "AKIA" + made(string.ascii_uppercase + string.digits, 16, seed),
        "aws temporary": "ASIA" + made(string.ascii_uppercase + string.digits, 16, seed),
        **{f"github {kind}": f"gh{kind}_" + made(ALPHANUMERIC, 36, seed) for kind in "opsru"},
        "github fine-grained": "github_pat_" + made(ALPHANUMERIC + "_", 82, seed),
        "gitlab": "glpat-" + made(URL_SAFE, 20, seed),
        **{
            f"slack {kind}": f"xox{kind}-1234567890-" + made(ALPHANUMERIC, 24, seed)
            for kind in "abprs"
        },
        "hugging face": "hf_" + made(string.ascii_letters, 34, seed),
        "xai": "xai-" + made(ALPHANUMERIC, 80, seed),
        "groq": "gsk_" + made(ALPHANUMERIC, 52, seed),
        **{
            f"issuer of {begins}": begins + made(alphabet, size, seed)
            for begins, alphabet, size in ISSUED
        },
        "azure openai": made(ALPHANUMERIC, 52, seed) + "JQQJ99" + made(ALPHANUMERIC, 26, seed),
        "sendgrid": f"SG.{made(URL_SAFE, 22, seed)}.{made(URL_SAFE, 43, seed)}",
        "langfuse": "sk-lf-" + "-".join(made(HEX, size, seed + size) for size in (8, 4, 4, 4, 12)),
        "langsmith": f"lsv2_pt_{made(HEX, 32, seed)}_{made(HEX, 10, seed)}",
        "cloudflare origin": f"v1.0-{made(HEX, 24, seed)}-{made(HEX, 146, seed)}",
        "jwt": f"eyJ{made(URL_SAFE, 33, seed)}.eyJ{made(URL_SAFE, 60, seed)}.{made(URL_SAFE, 43, seed)}",
        "jwt unsigned": f"eyJhbGciOiJub25lIn0.eyJ{made(URL_SAFE, 20, seed)}.",
        "rsa key": pem("RSA PRIVATE KEY", seed=seed),
        "pkcs8 key": pem("PRIVATE KEY", seed=seed),
        "ssh key": pem("OPENSSH PRIVATE KEY", seed=seed),
    }


SECRETS = secrets_of(1)
PIECE = 12  # characters in a row that are a part of a secret


def pieces(secret: str) -> Sequence[str]:
    """What would be a part of it, however it is written."""
    lines = [
        line
        for line in re.split(r"[\n.]", secret)
        if len(line) >= PIECE and not line.startswith("-----")
    ]
    return [line[at : at + PIECE] for line in lines for at in range(len(line) - PIECE + 1)] or [
        secret
    ]


# -- Requests of every API with credentials among their parameters, made up; and what a model reads,
# which looks alike


_numbers = count(1)


def _canary(place: str) -> str:
    return f"CANARY-{place}-{next(_numbers):04}"


def _mcp_headers() -> dict[str, str]:
    return {
        "X-Api-Key": _canary("header"),
        "Authorization": f"Bearer {_canary('bearer')}",
        "cookie": _canary("cookie"),
        "X-Tenant": _canary("tenant"),
        "Accept": "application/json",
    }


def _mcp_tool() -> dict[str, Any]:
    return {
        "type": "mcp",
        "server_label": "a",
        "server_url": f"https://me:{_canary('userinfo')}@mcp.example/sse?api_key={_canary('url')}&x={_canary('query')}",
        "authorization": _canary("authorization"),
        "headers": _mcp_headers(),
        "require_approval": "never",
    }


def _azure(key: str = "key") -> dict[str, Any]:
    return {
        "type": "azure_search",
        "parameters": {
            "endpoint": f"https://x.search.windows.net?sig={_canary('sas')}",
            "index_name": "docs",
            "key": _canary("parameters-key"),
            "authentication": {"type": "api_key", key: _canary("azure-key")},
            "embedding_dependency": {
                "type": "endpoint",
                "endpoint": "https://x/embeddings",
                "authentication": {"type": "api_key", "key": _canary("embedding-key")},
            },
        },
    }


def _function() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"token": {"type": "string", "default": "abc"}},
        "required": ["token"],
    }


_DOMAIN = {"domain": "a.example", "name": "KEY", "value": _canary("domain")}
_POLICY = {"type": "allowlist", "allowed_domains": ["a.example"], "domain_secrets": [_DOMAIN]}
_COGNITIVE_SEARCH = {
    "key": _canary("old-key"),
    "embeddingKey": _canary("old-embedding"),
    "authentication": {"type": "APIKey", "key": _canary("old-api-key")},
    "embeddingDependency": {"authentication": {"type": "APIKey", "key": _canary("old-dependency")}},
}
_MONGO = f"mongodb+srv://me:{_canary('mongo')}@x.example/?tls=true"
_COSMOS_DB = {"type": "connection_string", "connection_string": _MONGO}
_MONGO_DB = {"type": "username_and_password", "username": "me", "password": _canary("password")}
_MCP_SERVER = {
    "type": "url",
    "url": f"https://mcp.example/sse?token={_canary('server-url')}",
    "name": "a",
    "authorization_token": _canary("authorization-token"),
}
_IN_A_BATCH = {"type": "url", "url": "https://h", "authorization_token": _canary("batch")}
_REFRESH = {
    "refresh_token": _canary("refresh"),
    "token_endpoint": "https://h/token",
    "token_endpoint_auth": {"type": "client_secret_post", "client_secret": _canary("client")},
}
_EXTERNAL_API = {
    "endpoint": f"https://h/?q={_canary('endpoint')}",
    "apiAuth": {"apiKeyConfig": {"apiKeyString": _canary("api-key-string")}},
    "authConfig": {
        "apiKeyConfig": {"apiKeySecret": _canary("api-key-secret")},
        "oauthConfig": {"accessToken": _canary("oauth")},
        "oidcConfig": {"idToken": _canary("oidc")},
        "httpBasicAuthConfig": {"credentialSecret": _canary("basic")},
    },
}
_MAPS = {
    "api_key_config": {"api_key_string": _canary("maps")},
    "oauth_config": {"access_token": _canary("snake")},
    "oidc_config": {"id_token": _canary("snake-oidc")},
}
_LOCAL_SERVER = {
    "command": "npx",
    "args": ["-y", f"--api-key={_canary('argument')}", "--token", _canary("option")],
    "env": {"ACME_KEY": _canary("env")},
}

REQUESTS: Mapping[str, Any] = {
    "responses": {
        "model": "m",
        "input": "x",
        "tools": [_mcp_tool(), {"type": "function", "name": "login", "parameters": _function()}],
        "metadata": {"api_key": _canary("metadata"), "user": "a"},
    },
    "responses, a shell with secrets": {
        "model": "m",
        "input": "x",
        "tools": [
            {"type": "shell", "container": {"type": "container_auto", "network_policy": _POLICY}}
        ],
    },
    "responses over a websocket": {
        "type": "response.create",
        "model": "m",
        "input": "x",
        "tools": [_mcp_tool()],
    },
    "realtime": {"type": "session.update", "session": {"type": "realtime", "tools": [_mcp_tool()]}},
    "chat": {
        "model": "m",
        "messages": [],
        "tools": [_mcp_tool()],
        "extra_headers": {"X-Key": _canary("extra")},
    },
    "chat of azure": {
        "messages": [],
        "data_sources": [_azure(), _azure("access_token"), _azure("encoded_api_key")],
    },
    "chat of azure, as it was called": {
        "messages": [],
        "dataSources": [{"type": "AzureCognitiveSearch", "parameters": _COGNITIVE_SEARCH}],
    },
    "chat of azure, other stores": {
        "messages": [],
        "data_sources": [
            {"type": "azure_cosmos_db", "parameters": {"authentication": _COSMOS_DB}},
            {"type": "mongo_db", "parameters": {"authentication": _MONGO_DB}},
        ],
    },
    "chat of a gateway": {
        "model": "m",
        "messages": [],
        "api_key": _canary("gateway-key"),
        "aws_secret_access_key": _canary("aws"),
        "vertex_credentials": '{"private_key":"' + _canary("vertex") + '"}',
        "metadata": {
            "headers": {"X-Key": _canary("nested-header")},
            "langfuse_secret_key": _canary("langfuse"),
        },
        "fallbacks": [
            {
                "model": "n",
                "api_key": _canary("fallback"),
                "api_base": f"https://h/?key={_canary('base')}",
            }
        ],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 10,
        "messages": [],
        "mcp_servers": [_MCP_SERVER],
        "tools": [{"name": "login", "description": "x", "input_schema": _function()}],
    },
    "anthropic, a batch": {
        "requests": [{"custom_id": "a", "params": {"messages": [], "mcp_servers": [_IN_A_BATCH]}}]
    },
    "anthropic, a vault": {
        "auth": {
            "type": "mcp_oauth",
            "mcp_server_url": "https://h/mcp",
            "access_token": _canary("access"),
            "refresh": _REFRESH,
        }
    },
    "gemini": {
        "contents": [],
        "tools": [
            {"functionDeclarations": [{"name": "login", "parameters": _function()}]},
            {
                "mcpServers": [
                    {
                        "name": "a",
                        "streamableHttpTransport": {"url": "https://h", "headers": _mcp_headers()},
                    }
                ]
            },
            {"retrieval": {"externalApi": _EXTERNAL_API}},
            {"google_maps": {"auth_config": _MAPS}},
        ],
    },
    "gemini live": {
        "setup": {"model": "m", "tools": [{"mcpServers": [{"headers": _mcp_headers()}]}]}
    },
    "interactions": {
        "model": "m",
        "input": "x",
        "tools": [
            {"type": "mcp_server", "name": "a", "url": "https://h", "headers": _mcp_headers()}
        ],
    },
    "a webhook": {
        "webhook": {
            "url": "https://h/x",
            "signing_secret": _canary("signing"),
            "auth": _canary("auth"),
        }
    },
    "a local server": {"mcpServers": {"a": _LOCAL_SERVER}},
    "headers as lists": {
        "headers": [["X-Api-Key", _canary("pair")], ["Accept", "a/b"]],
        "request_headers": [{"name": "X-Api-Key", "value": _canary("item")}],
        "http_headers": [f"X-Api-Key: {_canary('line')}"],
        "extraHeaders": {"X-Api-Key": [_canary("several")]},
    },
}
"""By API. Each canary is in one place."""

_LOOKS_ALIKE: Mapping[str, Any] = {
    "authorization": "abc",
    "headers": {"X-Api-Key": "abc"},
    "token": "abc",
    "url": "https://me:abc@h/?x=abc",
}

READ_BY_A_MODEL: tuple[Any, ...] = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"_meta": {"progressToken": "abc"}},
    },
    {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"update": {"rawInput": _LOOKS_ALIKE}},
    },
    {
        "type": "stream_event",
        "event": {"type": "content_block_start", "content_block": {"input": _LOOKS_ALIKE}},
    },
    {
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": '{"authorization": "abc"}'}],
            }
        ]
    },
    {"input": [{"type": "function_call", "arguments": '{"token": "abc"}', **_LOOKS_ALIKE}]},
    {"instructions": "password: abc", "prompt": {"id": "p", "variables": {"token": "abc"}}},
    {"text": {"format": {"type": "json_schema", "schema": {"token": "abc"}}}},
    {
        "tools": [
            {
                "type": "function",
                "name": "a",
                "parameters": _LOOKS_ALIKE,
                "description": "https://h/?a=b",
            }
        ]
    },
    {
        "tools": [
            {
                "type": "custom",
                "name": "a",
                "format": {"type": "grammar", "definition": "token: abc"},
            }
        ]
    },
    {"messages": [{"role": "user", "content": "token: abc"}, {"role": "tool", **_LOOKS_ALIKE}]},
    {
        "messages": [],
        "functions": [_LOOKS_ALIKE],
        "response_format": {"json_schema": {"token": "abc"}},
    },
    {
        "messages": [],
        "tools": [{"type": "function", "function": _LOOKS_ALIKE}],
        "prediction": _LOOKS_ALIKE,
    },
    {"prompt": ["password: abc"], "suffix": "https://h/?a=b"},
    {"messages": [], "data_sources": [{"parameters": {"role_information": "https://h/?a=b"}}]},
    {"messages": [], "dataSources": [{"parameters": {"roleInformation": "https://h/?a=b"}}]},
    {"messages": [], "system": [{"type": "text", "text": "password: abc", **_LOOKS_ALIKE}]},
    {"tools": [{"name": "a", "input_schema": _LOOKS_ALIKE, "input_examples": [_LOOKS_ALIKE]}]},
    {
        "contents": [{"parts": [{"functionCall": {"args": _LOOKS_ALIKE}}]}],
        "systemInstruction": _LOOKS_ALIKE,
    },
    {
        "contents": [],
        "system_instruction": _LOOKS_ALIKE,
        "tools": [{"functionDeclarations": [_LOOKS_ALIKE]}],
    },
    {
        "tools": [{"function_declarations": [_LOOKS_ALIKE]}],
        "generationConfig": {"responseSchema": _LOOKS_ALIKE},
    },
    {
        "generation_config": {"response_schema": _LOOKS_ALIKE},
        "x": {"responseJsonSchema": _LOOKS_ALIKE},
    },
    {
        "x": {"response_json_schema": _LOOKS_ALIKE},
        "clientContent": _LOOKS_ALIKE,
        "client_content": _LOOKS_ALIKE,
    },
    {"realtimeInput": _LOOKS_ALIKE, "realtime_input": _LOOKS_ALIKE, "toolResponse": _LOOKS_ALIKE},
    {"tool_response": _LOOKS_ALIKE, "candidates": [_LOOKS_ALIKE], "serverContent": _LOOKS_ALIKE},
    {"output": [_LOOKS_ALIKE], "item": _LOOKS_ALIKE, "part": _LOOKS_ALIKE, "delta": _LOOKS_ALIKE},
    {"annotation": _LOOKS_ALIKE, "annotations": [_LOOKS_ALIKE], "logprobs": [_LOOKS_ALIKE]},
    {
        "top_logprobs": [_LOOKS_ALIKE],
        "choices": [_LOOKS_ALIKE],
        "content_block": _LOOKS_ALIKE,
        "message": "a token",
    },
    {
        "additional_messages": [_LOOKS_ALIKE],
        "chat_history": [_LOOKS_ALIKE],
        "preamble": "https://h/?a=b",
    },
    {"documents": [_LOOKS_ALIKE], "texts": ["https://h/?a=b"], "query": "https://h/?a=b"},
    {
        "events": [_LOOKS_ALIKE],
        "initial_events": [_LOOKS_ALIKE],
        "description": "a token",
        "explanation": "https://h/?a=b",
    },
    {
        "context": [{"description": "a token", "value": "https://h/?a=b"}],
        "inputTextDelta": "token: abc",
    },
    {"step": _LOOKS_ALIKE, "steps": [_LOOKS_ALIKE], "content": _LOOKS_ALIKE},
    {"properties": _LOOKS_ALIKE, "title": "https://h/?a=b", "x": {"schema": _LOOKS_ALIKE}},
)
