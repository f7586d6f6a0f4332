"""Requests of every API with credentials among their parameters, made up; and what a model reads, which looks alike."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

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
    return {"type": "object", "properties": {"token": {"type": "string", "default": "abc"}}, "required": ["token"]}


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
            {
                "type": "shell",
                "container": {
                    "type": "container_auto",
                    "network_policy": {
                        "type": "allowlist",
                        "allowed_domains": ["a.example"],
                        "domain_secrets": [{"domain": "a.example", "name": "KEY", "value": _canary("domain")}],
                    },
                },
            }
        ],
    },
    "responses over a websocket": {"type": "response.create", "model": "m", "input": "x", "tools": [_mcp_tool()]},
    "realtime": {"type": "session.update", "session": {"type": "realtime", "tools": [_mcp_tool()]}},
    "chat": {"model": "m", "messages": [], "tools": [_mcp_tool()], "extra_headers": {"X-Key": _canary("extra")}},
    "chat of azure": {"messages": [], "data_sources": [_azure(), _azure("access_token"), _azure("encoded_api_key")]},
    "chat of azure, as it was called": {
        "messages": [],
        "dataSources": [
            {
                "type": "AzureCognitiveSearch",
                "parameters": {
                    "key": _canary("old-key"),
                    "embeddingKey": _canary("old-embedding"),
                    "authentication": {"type": "APIKey", "key": _canary("old-api-key")},
                    "embeddingDependency": {"authentication": {"type": "APIKey", "key": _canary("old-dependency")}},
                },
            }
        ],
    },
    "chat of azure, other stores": {
        "messages": [],
        "data_sources": [
            {
                "type": "azure_cosmos_db",
                "parameters": {
                    "authentication": {
                        "type": "connection_string",
                        "connection_string": f"mongodb+srv://me:{_canary('mongo')}@x.example/?tls=true",
                    }
                },
            },
            {
                "type": "mongo_db",
                "parameters": {
                    "authentication": {
                        "type": "username_and_password",
                        "username": "me",
                        "password": _canary("password"),
                    }
                },
            },
        ],
    },
    "chat of a gateway": {
        "model": "m",
        "messages": [],
        "api_key": _canary("gateway-key"),
        "aws_secret_access_key": _canary("aws"),
        "vertex_credentials": '{"private_key":"' + _canary("vertex") + '"}',
        "metadata": {"headers": {"X-Key": _canary("nested-header")}, "langfuse_secret_key": _canary("langfuse")},
        "fallbacks": [{"model": "n", "api_key": _canary("fallback"), "api_base": f"https://h/?key={_canary('base')}"}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 10,
        "messages": [],
        "mcp_servers": [
            {
                "type": "url",
                "url": f"https://mcp.example/sse?token={_canary('server-url')}",
                "name": "a",
                "authorization_token": _canary("authorization-token"),
            }
        ],
        "tools": [{"name": "login", "description": "x", "input_schema": _function()}],
    },
    "anthropic, a batch": {
        "requests": [
            {
                "custom_id": "a",
                "params": {
                    "messages": [],
                    "mcp_servers": [{"type": "url", "url": "https://h", "authorization_token": _canary("batch")}],
                },
            }
        ]
    },
    "anthropic, a vault": {
        "auth": {
            "type": "mcp_oauth",
            "mcp_server_url": "https://h/mcp",
            "access_token": _canary("access"),
            "refresh": {
                "refresh_token": _canary("refresh"),
                "token_endpoint": "https://h/token",
                "token_endpoint_auth": {"type": "client_secret_post", "client_secret": _canary("client")},
            },
        }
    },
    "gemini": {
        "contents": [],
        "tools": [
            {"functionDeclarations": [{"name": "login", "parameters": _function()}]},
            {"mcpServers": [{"name": "a", "streamableHttpTransport": {"url": "https://h", "headers": _mcp_headers()}}]},
            {
                "retrieval": {
                    "externalApi": {
                        "endpoint": f"https://h/?q={_canary('endpoint')}",
                        "apiAuth": {"apiKeyConfig": {"apiKeyString": _canary("api-key-string")}},
                        "authConfig": {
                            "apiKeyConfig": {"apiKeySecret": _canary("api-key-secret")},
                            "oauthConfig": {"accessToken": _canary("oauth")},
                            "oidcConfig": {"idToken": _canary("oidc")},
                            "httpBasicAuthConfig": {"credentialSecret": _canary("basic")},
                        },
                    }
                }
            },
            {
                "google_maps": {
                    "auth_config": {
                        "api_key_config": {"api_key_string": _canary("maps")},
                        "oauth_config": {"access_token": _canary("snake")},
                        "oidc_config": {"id_token": _canary("snake-oidc")},
                    }
                }
            },
        ],
    },
    "gemini live": {"setup": {"model": "m", "tools": [{"mcpServers": [{"headers": _mcp_headers()}]}]}},
    "interactions": {
        "model": "m",
        "input": "x",
        "tools": [{"type": "mcp_server", "name": "a", "url": "https://h", "headers": _mcp_headers()}],
    },
    "a webhook": {"webhook": {"url": "https://h/x", "signing_secret": _canary("signing"), "auth": _canary("auth")}},
    "a local server": {
        "mcpServers": {
            "a": {
                "command": "npx",
                "args": ["-y", f"--api-key={_canary('argument')}", "--token", _canary("option")],
                "env": {"ACME_KEY": _canary("env")},
            }
        }
    },
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
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": '{"authorization": "abc"}'}]}]},
    {"input": [{"type": "function_call", "arguments": '{"token": "abc"}', **_LOOKS_ALIKE}]},
    {"instructions": "password: abc", "prompt": {"id": "p", "variables": {"token": "abc"}}},
    {"text": {"format": {"type": "json_schema", "schema": {"token": "abc"}}}},
    {"tools": [{"type": "function", "name": "a", "parameters": _LOOKS_ALIKE, "description": "https://h/?a=b"}]},
    {"tools": [{"type": "custom", "name": "a", "format": {"type": "grammar", "definition": "token: abc"}}]},
    {"messages": [{"role": "user", "content": "token: abc"}, {"role": "tool", **_LOOKS_ALIKE}]},
    {"messages": [], "functions": [_LOOKS_ALIKE], "response_format": {"json_schema": {"token": "abc"}}},
    {"messages": [], "tools": [{"type": "function", "function": _LOOKS_ALIKE}], "prediction": _LOOKS_ALIKE},
    {"prompt": ["password: abc"], "suffix": "https://h/?a=b"},
    {"messages": [], "data_sources": [{"parameters": {"role_information": "https://h/?a=b"}}]},
    {"messages": [], "dataSources": [{"parameters": {"roleInformation": "https://h/?a=b"}}]},
    {"messages": [], "system": [{"type": "text", "text": "password: abc", **_LOOKS_ALIKE}]},
    {"tools": [{"name": "a", "input_schema": _LOOKS_ALIKE, "input_examples": [_LOOKS_ALIKE]}]},
    {"contents": [{"parts": [{"functionCall": {"args": _LOOKS_ALIKE}}]}], "systemInstruction": _LOOKS_ALIKE},
    {"contents": [], "system_instruction": _LOOKS_ALIKE, "tools": [{"functionDeclarations": [_LOOKS_ALIKE]}]},
    {"tools": [{"function_declarations": [_LOOKS_ALIKE]}], "generationConfig": {"responseSchema": _LOOKS_ALIKE}},
    {"generation_config": {"response_schema": _LOOKS_ALIKE}, "x": {"responseJsonSchema": _LOOKS_ALIKE}},
    {"x": {"response_json_schema": _LOOKS_ALIKE}, "clientContent": _LOOKS_ALIKE, "client_content": _LOOKS_ALIKE},
    {"realtimeInput": _LOOKS_ALIKE, "realtime_input": _LOOKS_ALIKE, "toolResponse": _LOOKS_ALIKE},
    {"tool_response": _LOOKS_ALIKE, "candidates": [_LOOKS_ALIKE], "serverContent": _LOOKS_ALIKE},
    {"output": [_LOOKS_ALIKE], "item": _LOOKS_ALIKE, "part": _LOOKS_ALIKE, "delta": _LOOKS_ALIKE},
    {"annotation": _LOOKS_ALIKE, "annotations": [_LOOKS_ALIKE], "logprobs": [_LOOKS_ALIKE]},
    {"top_logprobs": [_LOOKS_ALIKE], "choices": [_LOOKS_ALIKE], "content_block": _LOOKS_ALIKE, "message": "a token"},
    {"additional_messages": [_LOOKS_ALIKE], "chat_history": [_LOOKS_ALIKE], "preamble": "https://h/?a=b"},
    {"documents": [_LOOKS_ALIKE], "texts": ["https://h/?a=b"], "query": "https://h/?a=b"},
    {"properties": _LOOKS_ALIKE, "title": "https://h/?a=b", "x": {"schema": _LOOKS_ALIKE}},
)
