"""litellm over OpenAI's Chat Completions."""

from litellm_completion import run

run("openai/gpt-5.5")
