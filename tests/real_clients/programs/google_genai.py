"""google-genai for Python: a chat that calls the function itself."""

from __future__ import annotations

from google import genai
from weather import PROMPT, SLOW_PROMPT, Tokens, get_weather, main, tell

client = genai.Client()
MODEL = "gemini-3-flash-preview"


def loop(tokens: Tokens) -> str:
    chat = client.chats.create(model=MODEL, config={"tools": [get_weather]})
    usages = {}
    for chunk in chat.send_message_stream(PROMPT):
        usages[chunk.response_id] = chunk.usage_metadata
    for usage in usages.values():
        thoughts, said = usage.thoughts_token_count or 0, usage.candidates_token_count or 0
        tokens.add(usage.prompt_token_count, thoughts + said)
    return "".join(part.text for part in chat.get_history()[-1].parts if part.text and not part.thought)


def slow() -> None:
    for chunk in client.models.generate_content_stream(model=MODEL, contents=SLOW_PROMPT):
        tell(chunk.text or "")


main(loop, slow)
