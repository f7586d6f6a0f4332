"""litellm over the Gemini API."""

from litellm_completion import run

run("gemini/gemini-3-flash-preview")
