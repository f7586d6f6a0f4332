"""litellm over Anthropic's Messages API."""

from litellm_completion import run

run("anthropic/claude-sonnet-4-6")
