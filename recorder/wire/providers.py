"""The companies: one row each, with all that is known of one beside the wire formats that it speaks. Data.

A further company that speaks a known format is a row in `PROVIDERS` and nothing else: its name is an upstream and an
argument of `recorder env`, its keys are redacted, its prices and its name in telemetry are found.

Must not know: the wire formats, which are names here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

RESPONSES, CHAT, MESSAGES, GEMINI = "openai-responses", "openai-chat", "anthropic", "gemini"


class KeyShape(msgspec.Struct, frozen=True):
    """The shape of a secret: regular expressions over bytes.

    Of `pattern` at least 19 characters in a row are letters, digits, `_` or `-`, at most five after its beginning.
    """

    kind: str  # as placeholders name it: acme-key
    pattern: bytes  # a whole one
    prefix: bytes  # how it begins: looked for first
    cut: bytes  # a beginning of one, at the end of a body that broke off


def issued(row: str) -> KeyShape:
    """Return the shape of what an issuer gives out: `KIND BEGINS OF AT_LEAST ENDS`, the last may be left out.

    It begins as all of the issuer's secrets do; after that there are at least so many characters of a kind.
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
    base_url: str | None  # None: each customer has another one; one that ends in a slash has paths without a version
    formats: tuple[str, ...]  # names of dialects that it speaks; errors of our own have the form of the first
    is_default: bool = False  # every recorder forwards `/NAME/…`; the others are added by `--upstream NAME`
    telemetry_name: str | None = None  # OpenTelemetry's (`gen_ai.provider.name`), where that is another
    price_name: str | None = None  # that of the package genai-prices, where that is another
    hosts: tuple[str, ...] = ()  # regular expressions of hosts that serve it, besides that of `base_url`

    # how a request without the name of an upstream is known
    paths: re.Pattern[str] | None = None  # matched with a path: it is for this provider
    headers: tuple[bytes, ...] = ()  # names in lower case of headers that only its clients send
    query: re.Pattern[str] | None = None  # searched in a query: only its clients send that
    endpoints: tuple[str, ...] = ()  # paths that stand after `/v1/`, which clients may leave out
    other_paths: tuple[str, ...] = ()  # regular expressions: how paths without a version begin

    # clients
    environment: Mapping[str, str] = {}  # what `recorder env` sets, `{url}` for the recorder's; it refuses NAME without
    base_variables: Mapping[str, str] = {}  # that its clients read → the version that they want in it; the SDK's first
    key_variable: str | None = None  # without which its clients do not start
    other_key_variables: tuple[str, ...] = ()  # that some of them read in its place

    # secrets
    secret_headers: str | None = None  # a regular expression, searched in names in lower case: values are never kept
    harmless_headers: str | None = None  # the same, of whole names: values are kept
    count_headers: str | None = None  # names with `token` in them that are kept all the same: they count
    key_shapes: tuple[KeyShape, ...] = ()

    @property
    def sdk_version(self) -> str:
        """Return the version that its SDK wants in a base URL: `/v1`, or an empty text."""
        return next(iter(self.base_variables.values()), "")


_LIVE = r"ws/google\.ai\.generativelanguage\.[\w.]+"  # Gemini's Live API, over WebSocket

PROVIDERS: tuple[Provider, ...] = (
    Provider(
        name="openai",
        base_url="https://api.openai.com",
        formats=(RESPONSES, CHAT),
        is_default=True,
        paths=re.compile(r"(?!(?:/v1)?/(?:models|files|batches)(?:/|$))"),  # those three all the APIs have
        endpoints=(
            *("assistants", "audio", "batches", "chat/completions", "completions", "containers", "conversations"),
            *("embeddings", "evals", "files", "fine_tuning", "images", "models", "moderations", "realtime"),
            *("responses", "threads", "uploads", "vector_stores", "videos"),
        ),
        environment={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_BASE": "{url}/v1"},  # the second for LlamaIndex
        base_variables={"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"},
        key_variable="OPENAI_API_KEY",
        secret_headers=r"openai-organization|openai-project",
        harmless_headers=r"openai-(?:beta|model|processing-ms|version)",
        key_shapes=(issued_as_sk("openai-key", rb"sk-(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{20,}"),),
    ),
    Provider(
        name="anthropic",
        base_url="https://api.anthropic.com",
        formats=(MESSAGES,),
        is_default=True,
        paths=re.compile(r"(?:/v1)?/messages(?:/|$)"),
        headers=(b"anthropic-version", b"x-api-key"),
        endpoints=("messages",),
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
        formats=(GEMINI,),
        is_default=True,
        telemetry_name="gcp.gemini",
        price_name="google",
        hosts=(r"cloudcode-pa\.googleapis\.com", r"(?:[a-z0-9-]+-)?aiplatform(?:\.[a-z]+\.rep)?\.googleapis\.com"),
        paths=re.compile(
            r"(?:/upload)?/v\d+(?:alpha|beta)\d*(?:/|$)|(?:/v1)?/(?:models|tunedModels)/(?!ft:)[^/]+:[A-Za-z]+$"
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
    # https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle; openai-python, lib/azure.py
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
        environment={"OPENAI_BASE_URL": "{url}/openrouter/v1", "ANTHROPIC_BASE_URL": "{url}/openrouter"},
        key_variable="OPENROUTER_API_KEY",
        key_shapes=(issued_as_sk("openrouter-key", rb"sk-or-v1-[A-Za-z0-9]{20,}"),),
    ),
    # https://docs.x.ai/api/integrations
    Provider(
        name="xai",
        base_url="https://api.x.ai/v1",
        formats=(RESPONSES, CHAT),
        telemetry_name="x_ai",
        price_name="x-ai",
        environment={"OPENAI_BASE_URL": "{url}/xai/v1"},
        key_variable="XAI_API_KEY",
        key_shapes=(issued("xai-key xai- [A-Za-z0-9] 40"),),
    ),
    # https://docs.mistral.ai/resources/migration-guides
    Provider(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        formats=(CHAT,),
        telemetry_name="mistral_ai",
        environment={"OPENAI_BASE_URL": "{url}/mistral/v1"},
        key_variable="MISTRAL_API_KEY",
    ),
    # https://api-docs.deepseek.com
    Provider(
        name="deepseek",
        base_url="https://api.deepseek.com",
        formats=(CHAT, MESSAGES),
        environment={"OPENAI_BASE_URL": "{url}/deepseek/v1", "ANTHROPIC_BASE_URL": "{url}/deepseek/anthropic"},
        key_variable="DEEPSEEK_API_KEY",
    ),
    # https://console.groq.com/docs/openai; groq-python, _client.py
    Provider(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        formats=(CHAT, RESPONSES),
        environment={"GROQ_BASE_URL": "{url}/groq", "OPENAI_BASE_URL": "{url}/groq/v1"},
        key_variable="GROQ_API_KEY",
        key_shapes=(issued("groq-key gsk_ [A-Za-z0-9] 40"),),
    ),
    # https://docs.together.ai/docs/inference/openai-compatibility; together-py, _client.py
    Provider(
        name="together",
        base_url="https://api.together.ai/v1",
        formats=(CHAT,),
        hosts=(r"api\.together\.xyz",),
        environment={"TOGETHER_BASE_URL": "{url}/together/v1", "OPENAI_BASE_URL": "{url}/together/v1"},
        key_variable="TOGETHER_API_KEY",
        key_shapes=(issued("together-key tgp_v1_ [A-Za-z0-9_-] 30"),),
    ),
    # https://docs.fireworks.ai/tools-sdks/openai-compatibility
    Provider(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        formats=(CHAT, MESSAGES),
        environment={"OPENAI_BASE_URL": "{url}/fireworks/v1", "ANTHROPIC_BASE_URL": "{url}/fireworks"},
        key_variable="FIREWORKS_API_KEY",
        key_shapes=(issued("fireworks-key fw_ [A-Za-z0-9] 20"),),
    ),
    # cerebras-cloud-sdk-python, _client.py
    Provider(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        formats=(CHAT,),
        environment={"CEREBRAS_BASE_URL": "{url}/cerebras", "OPENAI_BASE_URL": "{url}/cerebras/v1"},
        key_variable="CEREBRAS_API_KEY",
        key_shapes=(issued("cerebras-key csk- [a-z0-9] 40"),),
    ),
    # Servers of one's own. They have other paths than `/v1`, too; a key is needed by the SDKs alone.
    Provider(  # https://docs.ollama.com/api/openai-compatibility and anthropic-compatibility
        name="ollama",
        base_url="http://localhost:11434",
        formats=(CHAT, RESPONSES, MESSAGES),
        environment={"OPENAI_BASE_URL": "{url}/ollama/v1", "ANTHROPIC_BASE_URL": "{url}/ollama"},
        key_variable="OLLAMA_API_KEY",
    ),
    Provider(  # https://docs.vllm.ai/en/stable/serving/openai_compatible_server
        name="vllm",
        base_url="http://localhost:8000",
        formats=(CHAT, RESPONSES, MESSAGES),
        environment={"OPENAI_BASE_URL": "{url}/vllm/v1", "ANTHROPIC_BASE_URL": "{url}/vllm"},
        key_variable="VLLM_API_KEY",
    ),
    Provider(  # https://lmstudio.ai/docs/developer/openai-compat and anthropic-compat
        name="lmstudio",
        base_url="http://localhost:1234",
        formats=(CHAT, RESPONSES, MESSAGES),
        environment={"OPENAI_BASE_URL": "{url}/lmstudio/v1", "ANTHROPIC_BASE_URL": "{url}/lmstudio"},
        key_variable="LM_API_TOKEN",
    ),
    # Its tokens are those of GitHub, which `recorder.wire.redaction.shapes` knows. `recorder env github-copilot` is for
    # its command line, which reads an address for a provider of one's own alone.
    Provider(
        name="github-copilot",
        base_url="https://api.githubcopilot.com/",
        formats=(CHAT, RESPONSES),
        hosts=(r"api\.(?:individual|business|enterprise)\.githubcopilot\.com",),
        key_variable="COPILOT_GITHUB_TOKEN",
    ),
    # Known by their hosts and keys.
    Provider(  # it signs requests for the host that they go to, but for those with a key of its own
        name="bedrock",
        base_url=None,  # https://bedrock-runtime.REGION.amazonaws.com
        formats=(CHAT,),
        telemetry_name="aws.bedrock",
        price_name="aws",
        hosts=(r"bedrock-runtime[a-z0-9.-]*\.amazonaws\.com",),
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        key_shapes=(issued("bedrock-key ABSK(?=Q) [A-Za-z0-9+/] 60 ={0,2}"),),
    ),
    Provider(  # https://docs.cohere.com/docs/compatibility-api
        name="cohere",
        base_url="https://api.cohere.ai/compatibility/v1",
        formats=(CHAT,),
        hosts=(r"api\.cohere\.com",),
        environment={"OPENAI_BASE_URL": "{url}/cohere/v1"},
        key_variable="COHERE_API_KEY",
    ),
    Provider(  # https://docs.perplexity.ai
        name="perplexity",
        base_url="https://api.perplexity.ai/",
        formats=(CHAT,),
        environment={"OPENAI_BASE_URL": "{url}/perplexity"},
        key_variable="PERPLEXITY_API_KEY",
        key_shapes=(issued("perplexity-key pplx- [A-Za-z0-9] 40"),),
    ),
    Provider(  # https://huggingface.co/docs/inference-providers
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        formats=(CHAT,),
        environment={"OPENAI_BASE_URL": "{url}/huggingface/v1"},
        key_variable="HF_TOKEN",
        key_shapes=(issued("huggingface-token hf_ [A-Za-z0-9] 30"),),
    ),
    Provider(  # https://vercel.com/docs/ai-gateway
        name="vercel-ai-gateway",
        base_url="https://ai-gateway.vercel.sh/v1",
        formats=(CHAT, RESPONSES, MESSAGES),
        environment={"OPENAI_BASE_URL": "{url}/vercel-ai-gateway/v1", "ANTHROPIC_BASE_URL": "{url}/vercel-ai-gateway"},
        key_variable="AI_GATEWAY_API_KEY",
    ),
    Provider(
        name="dashscope",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        formats=(CHAT,),
        hosts=(r"dashscope[a-z-]*\.aliyuncs\.com",),
        environment={"OPENAI_BASE_URL": "{url}/dashscope/v1"},
        key_variable="DASHSCOPE_API_KEY",
    ),
)
"""The first is the default: its formats are the ones that others imitate."""

BY_NAME: Mapping[str, Provider] = {provider.name: provider for provider in PROVIDERS}


def home_of(format: str) -> Provider | None:
    """Return the company of a format: the first that speaks it."""
    return next((provider for provider in PROVIDERS if format in provider.formats), None)
