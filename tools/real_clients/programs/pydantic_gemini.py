"""pydantic-ai over the Gemini API."""

from pydantic_agent import run

run("google:gemini-3-flash-preview")
