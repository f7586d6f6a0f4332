"""The companies: one row each, with all that is known of one beside the wire formats that it
speaks. Data.

A further company that speaks a known format is a row in `PROVIDERS` and nothing else: its name is
an upstream and an argument of `recorder env`, its keys are redacted, its prices and its name in
telemetry are found.

Must not know: the wire formats, which are names here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from recorder.model.text import rows

RESPONSES, CHAT, MESSAGES, GEMINI = "openai-responses", "openai-chat", "anthropic", "gemini"
INTERACTIONS = "gemini-interactions"
MANAGED_AGENTS, HOSTED_AGENTS = "anthropic-sessions", "openai-agents"


class KeyShape(msgspec.Struct, frozen=True):
    """The shape of a secret: regular expressions over bytes.

    Of `pattern` at least 19 characters in a row are letters, digits, `_` or `-`, at most five after
    its beginning.
    """

    kind: str  # as placeholders name it: acme-key
    pattern: bytes  # a whole one
    prefix: bytes  # how it begins: looked for first
    cut: bytes  # a beginning of one, at the end of a body that broke off


def issued(row: str) -> KeyShape:
    """Return the shape of what an issuer gives out: `KIND BEGINS OF AT_LEAST ENDS`, the last may be
    left out.

    It begins as all of the issuer's secrets do; after that there are at least so many characters of
    a kind.
    """
    kind, begins, of, at_least, *ends = row.split()
    pattern = f"(?:{begins}){of}{{{at_least},}}{''.join(ends)}"
    return KeyShape(kind, pattern.encode(), begins.encode(), f"(?:{begins}){of}*".encode())


def issued_as_sk(kind: str, pattern: bytes) -> KeyShape:
    """Return the shape of a key that begins with `sk-`, as those of many companies do."""
    return KeyShape(kind, pattern, prefix=rb"sk-", cut=rb"(?<![_-])sk-[A-Za-z0-9_-]*")


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A company's API: its addresses, its clients, its secrets, its names elsewhere."""

    name: str  # of its upstream: `/NAME/…`, `--upstream NAME`, `recorder env NAME`
    # None: each customer has another one; one that ends in a slash has paths without a version
    base_url: str | None
    # names of dialects that it speaks; errors of our own have the form of the first
    formats: tuple[str, ...]
    # every recorder forwards `/NAME/…`; the others are added by `--upstream NAME`
    is_default: bool = False
    # OpenTelemetry's (`gen_ai.provider.name`), where that is another
    telemetry_name: str | None = None
    price_name: str | None = None  # that of the package genai-prices, where that is another
    # regular expressions of hosts that serve it, besides that of `base_url`
    hosts: tuple[str, ...] = ()

    # how a request without the name of an upstream is known
    paths: re.Pattern[str] | None = None  # matched with a path: it is for this provider
    headers: tuple[bytes, ...] = ()  # names in lower case of headers that only its clients send
    query: re.Pattern[str] | None = None  # searched in a query: only its clients send that
    endpoints: tuple[str, ...] = ()  # paths that stand after `/v1/`, which clients may leave out
    other_paths: tuple[str, ...] = ()  # regular expressions: how paths without a version begin

    # clients
    # what `recorder env` sets, `{url}` for the recorder's; it refuses NAME without
    environment: Mapping[str, str] = {}
    # that its clients read → the version that they want in it; the SDK's first
    base_variables: Mapping[str, str] = {}
    key_variable: str | None = None  # without which its clients do not start
    other_key_variables: tuple[str, ...] = ()  # that some of them read in its place

    # secrets
    # a regular expression, searched in names in lower case: values are never kept
    secret_headers: str | None = None
    harmless_headers: str | None = None  # the same, of whole names: values are kept
    # names with `token` in them that are kept all the same: they count
    count_headers: str | None = None
    key_shapes: tuple[KeyShape, ...] = ()

    @property
    def sdk_version(self) -> str:
        """Return the version that its SDK wants in a base URL: `/v1`, or an empty text."""
        return next(iter(self.base_variables.values()), "")


def _companies(table: str) -> tuple[Provider, ...]:
    """Return the companies of a table: in a row the name, the base URL or `-`, the formats and the
    variable of the key.

    Then stand, in capitals, what `recorder env` sets, other fields by their names, and after a `|`
    the shape of a key.
    """
    found = []
    for row in rows(table):
        about, _, shape = row.partition(" | ")
        name, base_url, formats, key_variable, *more = about.split()
        fields: dict[str, Any] = dict(each.split("=", 1) for each in more)
        provider = Provider(
            name=name,
            base_url=None if base_url == "-" else base_url,
            formats=tuple(formats.split(",")),
            environment={each: fields.pop(each) for each in [*fields] if each.isupper()},
            key_variable=key_variable,
            hosts=tuple(fields.pop("hosts", "").split()),
            paths=re.compile(fields.pop("paths")) if "paths" in fields else None,
            key_shapes=(issued(shape),) if shape else (),
            **fields,
        )
        found.append(provider)
    return tuple(found)


_SHARED = "models|files|batches|agents|environments|credentials|webhooks|triggers|voices|operations|auth_tokens"
"""Resources that several APIs have at the same path: a header says whose a request is, and whose
key it has.
"""

_LIVE = r"ws/google\.ai\.generativelanguage\.[\w.]+"  # Gemini's Live API, over WebSocket

PROVIDERS: tuple[Provider, ...] = (
    Provider(
        name="openai",
        base_url="https://api.openai.com",
        formats=(RESPONSES, CHAT, HOSTED_AGENTS),
        is_default=True,
        paths=re.compile(rf"(?!(?:/v1)?/(?:{_SHARED})(?:[/:]|$))"),
        endpoints=(
            *(
                "agents",
                "assistants",
                "audio",
                "batches",
                "chat/completions",
                "completions",
                "containers",
                "conversations",
            ),
            *(
                "embeddings",
                "evals",
                "files",
                "fine_tuning",
                "images",
                "models",
                "moderations",
                "realtime",
            ),
            *("responses", "threads", "uploads", "vector_stores", "videos"),
        ),
        # the second for LlamaIndex
        environment={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_BASE": "{url}/v1"},
        base_variables={"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"},
        key_variable="OPENAI_API_KEY",
        secret_headers=r"openai-organization|openai-project",
        harmless_headers=r"openai-(?:beta|model|processing-ms|version)",
        key_shapes=(
            issued_as_sk(
                "openai-key", rb"sk-(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{20,}"
            ),
        ),
    ),
    Provider(
        name="anthropic",
        base_url="https://api.anthropic.com",
        formats=(MESSAGES, MANAGED_AGENTS),
        is_default=True,
        paths=re.compile(r"(?:/v1)?/(?:messages|sessions)(?:/|$)"),
        headers=(b"anthropic-version", b"x-api-key"),
        endpoints=("messages", "sessions"),
        environment={"ANTHROPIC_BASE_URL": "{url}/anthropic"},
        base_variables={"ANTHROPIC_BASE_URL": "", "ANTHROPIC_API_BASE": ""},
        key_variable="ANTHROPIC_API_KEY",
        harmless_headers=r"anthropic-(?:beta|version|ratelimit-[a-z_-]+)",
        count_headers=r"anthropic-ratelimit-[a-z-]*tokens[a-z_-]*",
        key_shapes=(issued_as_sk("anthropic-key", rb"sk-ant-[A-Za-z0-9_-]{20,}"),),
    ),
    Provider(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com",
        formats=(GEMINI, INTERACTIONS),
        is_default=True,
        telemetry_name="gcp.gemini",
        price_name="google",
        hosts=(
            r"cloudcode-pa\.googleapis\.com",
            r"(?:[a-z0-9-]+-)?aiplatform(?:\.[a-z]+\.rep)?\.googleapis\.com",
        ),
        paths=re.compile(
            r"(?:/upload)?/v\d+(?:alpha|beta)\d*(?:/|$)|(?:/v1)?/(?:models|tunedModels)/(?!ft:)[^/]+:[A-Za-z]+$"
            r"|(?:/v1)?/(?:interactions|cachedContents|fileSearchStores|tuningJobs)(?:/|$)"
            rf"|/{_LIVE}$"
        ),
        headers=(b"x-goog-api-key",),
        query=re.compile(r"(?:^|&)key="),
        other_paths=("tunedModels", _LIVE),
        environment={"GOOGLE_GEMINI_BASE_URL": "{url}"},
        base_variables={"GOOGLE_GEMINI_BASE_URL": "", "GEMINI_API_BASE": "/v1beta"},
        key_variable="GEMINI_API_KEY",
        other_key_variables=("GOOGLE_API_KEY",),
        harmless_headers=r"x-goog-request-id|x-goog-api-client",
        key_shapes=(
            issued("google-key AIza [A-Za-z0-9_-] 35"),
            issued(r"google-token ya29\. [A-Za-z0-9_-] 20"),
        ),
    ),
    Provider(  # what Codex asks, logged in with ChatGPT; the host serves other things too
        name="chatgpt",
        base_url="https://chatgpt.com/backend-api/codex",
        formats=(RESPONSES,),
        is_default=True,
        telemetry_name="openai",
    ),
    # https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle; openai-python,
    # lib/azure.py
    Provider(
        name="azure",
        base_url=None,  # https://RESOURCE.openai.azure.com
        formats=(RESPONSES, CHAT),
        telemetry_name="azure.ai.openai",
        hosts=(r".+\.openai\.azure\.com", r".+\.services\.ai\.azure\.com"),
        environment={"AZURE_OPENAI_ENDPOINT": "{url}/azure"},
        key_variable="AZURE_OPENAI_API_KEY",
        key_shapes=(
            KeyShape(  # 84 characters, of which these are in the middle
                "azure-key",
                rb"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}",
                prefix=rb"[A-Za-z0-9]{52}JQQJ99",
                cut=rb"[A-Za-z0-9]{52}JQQJ99\w*",
            ),
        ),
    ),
    # https://openrouter.ai/docs/quickstart
    Provider(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        formats=(CHAT, RESPONSES, MESSAGES),
        environment={
            "OPENAI_BASE_URL": "{url}/openrouter/v1",
            "ANTHROPIC_BASE_URL": "{url}/openrouter",
        },
        key_variable="OPENROUTER_API_KEY",
        key_shapes=(issued_as_sk("openrouter-key", rb"sk-or-v1-[A-Za-z0-9]{20,}"),),
    ),
    *_companies(r"""
# https://docs.x.ai/api/integrations
xai https://api.x.ai/v1 openai-responses,openai-chat XAI_API_KEY
 OPENAI_BASE_URL={url}/xai/v1 telemetry_name=x_ai price_name=x-ai | xai-key xai- [A-Za-z0-9] 40
# https://docs.mistral.ai/resources/migration-guides
mistral https://api.mistral.ai/v1 openai-chat MISTRAL_API_KEY
 OPENAI_BASE_URL={url}/mistral/v1 telemetry_name=mistral_ai
# https://api-docs.deepseek.com
deepseek https://api.deepseek.com openai-chat,anthropic DEEPSEEK_API_KEY
 OPENAI_BASE_URL={url}/deepseek/v1 ANTHROPIC_BASE_URL={url}/deepseek/anthropic
# https://console.groq.com/docs/openai; groq-python, _client.py
groq https://api.groq.com/openai/v1 openai-chat,openai-responses GROQ_API_KEY
 GROQ_BASE_URL={url}/groq OPENAI_BASE_URL={url}/groq/v1 | groq-key gsk_ [A-Za-z0-9] 40
# https://docs.together.ai/docs/inference/openai-compatibility; together-py, _client.py
together https://api.together.ai/v1 openai-chat TOGETHER_API_KEY
 TOGETHER_BASE_URL={url}/together/v1 OPENAI_BASE_URL={url}/together/v1 hosts=api\.together\.xyz
 | together-key tgp_v1_ [A-Za-z0-9_-] 30
# https://docs.fireworks.ai/tools-sdks/openai-compatibility
fireworks https://api.fireworks.ai/inference/v1 openai-chat,anthropic FIREWORKS_API_KEY
 OPENAI_BASE_URL={url}/fireworks/v1 ANTHROPIC_BASE_URL={url}/fireworks | fireworks-key fw_ [A-Za-z0-9] 20
# cerebras-cloud-sdk-python, _client.py
cerebras https://api.cerebras.ai/v1 openai-chat CEREBRAS_API_KEY
 CEREBRAS_BASE_URL={url}/cerebras OPENAI_BASE_URL={url}/cerebras/v1 | cerebras-key csk- [a-z0-9] 40
# Servers of one's own. They have other paths than `/v1`, too; a key is needed by the SDKs alone.
# https://docs.ollama.com/api/openai-compatibility and anthropic-compatibility; ollama-python, _client.py
ollama http://localhost:11434 ollama,openai-chat,openai-responses,anthropic OLLAMA_API_KEY
 OLLAMA_HOST={url}/ollama OPENAI_BASE_URL={url}/ollama/v1 ANTHROPIC_BASE_URL={url}/ollama
 paths=/api/(?:chat|generate)$
# https://docs.vllm.ai/en/stable/serving/openai_compatible_server
vllm http://localhost:8000 openai-chat,openai-responses,anthropic VLLM_API_KEY
 OPENAI_BASE_URL={url}/vllm/v1 ANTHROPIC_BASE_URL={url}/vllm
# https://lmstudio.ai/docs/developer/openai-compat and anthropic-compat
lmstudio http://localhost:1234 openai-chat,openai-responses,anthropic LM_API_TOKEN
 OPENAI_BASE_URL={url}/lmstudio/v1 ANTHROPIC_BASE_URL={url}/lmstudio
# Its tokens are those of GitHub, which `recorder.wire.redaction.shapes` knows. `recorder env github-copilot` is for
# its command line, which reads an address for a provider of one's own alone.
github-copilot https://api.githubcopilot.com/ openai-chat,openai-responses COPILOT_GITHUB_TOKEN
 hosts=api\.(?:individual|business|enterprise)\.githubcopilot\.com
# https://bedrock-runtime.REGION.amazonaws.com; anthropic-python, lib/bedrock/_client.py. `recorder env boto3` is for
# clients that sign, for the host that they ask.
bedrock - bedrock-converse,bedrock-invoke,bedrock-models,openai-chat AWS_BEARER_TOKEN_BEDROCK
 ANTHROPIC_BEDROCK_BASE_URL={url}/bedrock paths=/model/[^/]+/(?:converse|invoke)
 telemetry_name=aws.bedrock price_name=aws hosts=bedrock-runtime[a-z0-9.-]*\.amazonaws\.com
 | bedrock-key ABSK(?=Q) [A-Za-z0-9+/] 60 ={0,2}
# https://docs.cohere.com/docs/compatibility-api
cohere https://api.cohere.ai/compatibility/v1 openai-chat COHERE_API_KEY
 OPENAI_BASE_URL={url}/cohere/v1 hosts=api\.cohere\.com
# https://docs.perplexity.ai
perplexity https://api.perplexity.ai/ openai-chat PERPLEXITY_API_KEY
 OPENAI_BASE_URL={url}/perplexity | perplexity-key pplx- [A-Za-z0-9] 40
# https://huggingface.co/docs/inference-providers
huggingface https://router.huggingface.co/v1 openai-chat HF_TOKEN
 OPENAI_BASE_URL={url}/huggingface/v1 | huggingface-token hf_ [A-Za-z0-9] 30
# https://vercel.com/docs/ai-gateway
vercel-ai-gateway https://ai-gateway.vercel.sh/v1 openai-chat,openai-responses,anthropic AI_GATEWAY_API_KEY
 OPENAI_BASE_URL={url}/vercel-ai-gateway/v1 ANTHROPIC_BASE_URL={url}/vercel-ai-gateway
dashscope https://dashscope.aliyuncs.com/compatible-mode/v1 openai-chat DASHSCOPE_API_KEY
 OPENAI_BASE_URL={url}/dashscope/v1 hosts=dashscope[a-z-]*\.aliyuncs\.com
"""),
)
"""The first is the default: its formats are the ones that others imitate."""

BY_NAME: Mapping[str, Provider] = {provider.name: provider for provider in PROVIDERS}


def home_of(format: str) -> Provider | None:
    """Return the company of a format: the first that speaks it."""
    return next((provider for provider in PROVIDERS if format in provider.formats), None)
