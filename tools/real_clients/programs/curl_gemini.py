"""curl over the Gemini API."""

from os import environ

from curl_request import run

run(
    f"{environ['GOOGLE_GEMINI_BASE_URL']}/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse",
    f"x-goog-api-key: {environ['GEMINI_API_KEY']}",
    '{"contents": [{"role": "user", "parts": [{"text": "PROMPT"}]}]}',
    lambda chunk: "".join(
        part["text"]
        for part in chunk["candidates"][0]["content"]["parts"]
        if "text" in part and "thought" not in part
    ),
)
