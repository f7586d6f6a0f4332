"""Programs over SDKs and frameworks, one short file for each row of the table.

`weather` has what they share. `langchain_agent`, `pydantic_agent`, `litellm_completion`,
`vercel_text` and `curl_request` are each run over several APIs by the files beside them. Node finds
packages beside a file or above it, and nowhere else: these files have to be copied to where the
packages are.
"""

from __future__ import annotations

from tools.real_clients.client import PROMPT, RESULT, TALK_PROMPT
from tools.real_clients.program import Program

_OPENAI, _ANTHROPIC, _GOOGLE = "openai==3.54.0", "anthropic==2.12.0", "google-genai==3.6.1"
_NODE_OPENAI, _NODE_ANTHROPIC = ("openai@7.57.0",), ("@anthropic-ai/sdk@1.14.0",)
_OPENAI_CONNECT = (f"openai[realtime]=={_OPENAI.partition('==')[2]}",)
_NODE_CONNECT = (*_NODE_OPENAI, "ws@8.23.0")  # npm installs it only if asked
_AI = "ai@7.0.173"
_AI_OPENAI, _AI_ANTHROPIC = (_AI, "@ai-sdk/openai@4.0.118"), (_AI, "@ai-sdk/anthropic@4.0.105")
_AI_GOOGLE = (_AI, "@ai-sdk/google@4.0.121")
_LC = ("langchain==1.4.7", "langchain-core==1.7.2")
_LC_OPENAI = (*_LC, "langchain-openai==1.7.3", _OPENAI)
_LC_ANTHROPIC = (*_LC, "langchain-anthropic==1.7.7", _ANTHROPIC)
_PYDANTIC_AI = "pydantic-ai-slim[openai,anthropic,google]==2.68.0"
# it takes no google-genai 3
_PYDANTIC = (_PYDANTIC_AI, _OPENAI, _ANTHROPIC, "google-genai==2.34.0")
_LITELLM = ("litellm==1.106.2", "mcp==2.3.0")  # it imports mcp, and does not require it
_AGENTS = ("openai-agents==0.24.0", _OPENAI)
_CLAUDE, _CODEX = ("claude-agent-sdk==0.2.187",), ("@openai/codex-sdk@0.163.0",)

_NO_USAGE = "LangChain does not ask for usage in a stream if the address is not OpenAI's own."
_OWN_TOOL = ("It has tools of its own: its loop is one shell command.", PROMPT, (RESULT,))
_ONE_REQUEST: tuple[str, str, tuple[str, ...]] = ("One request, and no loop.", TALK_PROMPT, ())

PROGRAMS = (
    Program(
        "openai, Responses", "3.54.0", "python", (_OPENAI,), "openai_responses.py", ("openai",)
    ),
    Program(
        *(
            "openai, WebSocket",
            "3.54.0",
            "python",
            _OPENAI_CONNECT,
            "openai_connect.py",
            ("openai",),
        ),
        websocket=True,
    ),
    Program(
        *(
            "openai, WebSocket, async",
            "3.54.0",
            "python",
            _OPENAI_CONNECT,
            "openai_connect_async.py",
            ("openai",),
        ),
        websocket=True,
    ),
    Program("openai, Chat", "3.54.0", "python", (_OPENAI,), "openai_chat.py", ("openai",)),
    Program(
        "anthropic", "2.12.0", "python", (_ANTHROPIC,), "anthropic_messages.py", ("anthropic",)
    ),
    Program("google-genai", "3.6.1", "python", (_GOOGLE,), "google_genai.py", ("gemini",)),
    Program(
        "openai, Responses", "7.57.0", "node", _NODE_OPENAI, "openai_responses.mjs", ("openai",)
    ),
    Program(
        *("openai, WebSocket", "7.57.0", "node", _NODE_CONNECT, "openai_connect.mjs", ("openai",)),
        websocket=True,
    ),
    Program("openai, Chat", "7.57.0", "node", _NODE_OPENAI, "openai_chat.mjs", ("openai",)),
    Program(
        "@anthropic-ai/sdk",
        "1.14.0",
        "node",
        _NODE_ANTHROPIC,
        "anthropic_messages.mjs",
        ("anthropic",),
    ),
    Program(
        "@google/genai", "3.3.0", "node", ("@google/genai@3.3.0",), "google_genai.mjs", ("gemini",)
    ),
    Program(
        "Vercel AI SDK, OpenAI Responses",
        "7.0.173",
        "node",
        _AI_OPENAI,
        "vercel_responses.mjs",
        ("openai",),
    ),
    Program(
        "Vercel AI SDK, OpenAI Chat", "7.0.173", "node", _AI_OPENAI, "vercel_chat.mjs", ("openai",)
    ),
    Program(
        "Vercel AI SDK, Anthropic",
        "7.0.173",
        "node",
        _AI_ANTHROPIC,
        "vercel_messages.mjs",
        ("anthropic",),
    ),
    Program(
        "Vercel AI SDK, Gemini without ids",
        "7.0.173",
        "node",
        _AI_GOOGLE,
        "vercel_gemini.mjs",
        ("gemini",),
    ),
    Program(
        "LangChain, OpenAI Responses",
        "1.4.7",
        "python",
        _LC_OPENAI,
        "langchain_responses.py",
        ("openai",),
    ),
    Program(
        "LangChain, OpenAI Chat",
        "1.4.7",
        "python",
        _LC_OPENAI,
        "langchain_chat.py",
        ("openai",),
        _NO_USAGE,
    ),
    Program(
        "LangChain, Anthropic",
        "1.4.7",
        "python",
        _LC_ANTHROPIC,
        "langchain_messages.py",
        ("anthropic",),
    ),
    Program(
        "pydantic-ai, OpenAI Responses",
        "2.68.0",
        "python",
        _PYDANTIC,
        "pydantic_responses.py",
        ("openai",),
    ),
    Program(
        "pydantic-ai, OpenAI Chat", "2.68.0", "python", _PYDANTIC, "pydantic_chat.py", ("openai",)
    ),
    Program(
        "pydantic-ai, Anthropic",
        "2.68.0",
        "python",
        _PYDANTIC,
        "pydantic_messages.py",
        ("anthropic",),
    ),
    Program(
        "pydantic-ai, Gemini", "2.68.0", "python", _PYDANTIC, "pydantic_gemini.py", ("gemini",)
    ),
    Program("openai-agents", "0.24.0", "python", _AGENTS, "openai_agents.py", ("openai",)),
    Program(
        *(
            "openai-agents, WebSocket",
            "0.24.0",
            "python",
            _AGENTS,
            "openai_agents_connect.py",
            ("openai",),
        ),
        websocket=True,
    ),
    Program("magentic", "0.41.1", "python", ("magentic==0.41.1",), "magentic_chat.py", ("openai",)),
    Program("litellm, OpenAI", "1.106.2", "python", _LITELLM, "litellm_openai.py", ("openai",)),
    Program(
        "litellm, Anthropic", "1.106.2", "python", _LITELLM, "litellm_anthropic.py", ("anthropic",)
    ),
    Program(
        "litellm, Gemini",
        "1.106.2",
        "python",
        _LITELLM,
        "litellm_gemini.py",
        ("gemini",),
        wiring=("litellm",),
    ),
    Program(
        *(
            "claude-agent-sdk",
            "0.2.187",
            "python",
            _CLAUDE,
            "claude_agent.py",
            ("anthropic",),
            *_OWN_TOOL,
        ),
        where="purpose = 'turn'",  # it reports no tokens of the request for a title
    ),
    Program(
        *(
            "@openai/codex-sdk",
            "0.163.0",
            "node",
            _CODEX,
            "codex_thread.mjs",
            ("openai",),
            *_OWN_TOOL,
        ),
        websocket=True,
    ),
    Program(
        "curl, OpenAI Responses", "", "python", (), "curl_responses.py", ("openai",), *_ONE_REQUEST
    ),
    Program("curl, OpenAI Chat", "", "python", (), "curl_chat.py", ("openai",), *_ONE_REQUEST),
    Program("curl, Anthropic", "", "python", (), "curl_messages.py", ("anthropic",), *_ONE_REQUEST),
    Program("curl, Gemini", "", "python", (), "curl_gemini.py", ("gemini",), *_ONE_REQUEST),
)
