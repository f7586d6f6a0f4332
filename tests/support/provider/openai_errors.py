"""Error answers of the OpenAI APIs: JSON for people, two spaces deep."""

from __future__ import annotations

import json

from tests.support.provider.dice import Dice
from tests.support.provider.reply import DemoReply, Headers, whole

_REFUSALS: dict[int, tuple[str, str | None, str]] = {  # status: type, code, message
    400: ("invalid_request_error", None, "The request was refused because it asked to be."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-demo****. You can find your "
          "API key at https://platform.openai.com/account/api-keys."),
    404: ("invalid_request_error", None, "There is nothing of that name here."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests per min (RPM): Limit 3, Used 3, "
          "Requested 1. Please try again in 2s."),
    500: ("server_error", "server_error", "The server had an error while processing your request. Sorry about that!"),
}  # fmt: skip


def headers(dice: Dice, content_type: str) -> Headers:
    """Return the headers of every answer."""
    return (
        ("content-type", content_type),
        ("openai-version", "2020-10-01"),
        ("openai-organization", "org-demo"),
        ("openai-processing-ms", "212"),
        ("x-request-id", dice.hex("req_", 32)),
        ("x-ratelimit-limit-requests", "10000"),
        ("x-ratelimit-remaining-requests", "9999"),
        ("set-cookie", f"__cf_bm={dice.name('', 43)}; path=/; HttpOnly; Secure; SameSite=None"),
        ("set-cookie", f"_cfuvid={dice.name('', 43)}; path=/; HttpOnly; Secure; SameSite=None"),
        ("server", "cloudflare"),
        ("cf-ray", dice.hex("", 16) + "-ZRH"),
    )


def refuse(
    dice: Dice, status: int, message: str | None = None, param: str | None = None
) -> DemoReply:
    """Return an error answer; a 429 has the time to wait before a retry."""
    kind, code, standard = _REFUSALS[status]
    error = {"message": message or standard, "type": kind, "param": param, "code": code}
    extra = (("retry-after", "2"), ("retry-after-ms", "2000")) if status == 429 else ()
    body = json.dumps({"error": error}, indent=2, ensure_ascii=False).encode()
    return whole(body, headers(dice, "application/json") + extra, status)
