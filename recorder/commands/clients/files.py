"""The settings that point a client here which reads its address from a file: what belongs into
which file.

`{url}` is the server's, without a version. Models and keys are the user's: their places are marked
with MODEL and KEY.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ClientFile(NamedTuple):
    """The place of a client's settings, and what to put there."""

    place: str
    text: str


_OPENCODE = """\
{
  "provider": {
    "openai": {"options": {"baseURL": "{url}/v1"}},
    "anthropic": {"options": {"baseURL": "{url}/anthropic/v1"}},
    "google": {"options": {"baseURL": "{url}/gemini/v1beta"}}
  }
}"""

FILES: Mapping[str, ClientFile] = {
    # A request is signed for the host in its URL, which AWS compares with its own; a bearer key is
    # refused by botocore over plain HTTP. So the address is changed after that.
    "boto3": ClientFile(
        "your program, after it has made the `client` of bedrock-runtime",
        """\
# recorder serve --upstream bedrock=https://bedrock-runtime.REGION.amazonaws.com
def to_recorder(request, **_):
    request.url = request.url.replace(client.meta.endpoint_url, "{url}/bedrock")

client.meta.events.register("before-send.bedrock-runtime", to_recorder)""",
    ),
    "cline": ClientFile(
        "a shell, which has Cline write its own file",
        "cline auth --provider openai --apikey KEY --modelid MODEL --baseurl {url}/v1",
    ),
    "continue": ClientFile(
        "~/.continue/config.yaml",
        """\
models:
  - name: recorded
    provider: openai
    model: MODEL
    apiKey: KEY
    apiBase: {url}/v1""",
    ),
    "droid": ClientFile(
        "~/.factory/settings.json",
        """\
{
  "customModels": [
    {"model": "MODEL", "displayName": "recorded", "provider": "openai", "baseUrl": "{url}/v1", "apiKey": "KEY"}
  ]
}""",
    ),
    "kilo": ClientFile("~/.config/kilo/kilo.jsonc", _OPENCODE),
    "kimi": ClientFile(
        "~/.kimi-code/config.toml",
        """\
[providers.recorded]
type = "openai"
base_url = "{url}/v1"
api_key = "KEY"

[models.recorded]
provider = "recorded"
model = "MODEL"
max_context_size = 131072""",
    ),
    "pi": ClientFile(
        "~/.pi/agent/models.json",
        """\
{
  "providers": {
    "openai": {"baseUrl": "{url}/v1"},
    "anthropic": {"baseUrl": "{url}/anthropic"},
    "google": {"baseUrl": "{url}/gemini/v1beta"}
  }
}""",
    ),
}
