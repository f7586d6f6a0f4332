"""Agents and other programs that people start themselves."""

from __future__ import annotations

from tools.real_clients.agents.claude import CLAUDE
from tools.real_clients.agents.codex import CODEX
from tools.real_clients.agents.copilot import COPILOT
from tools.real_clients.agents.gemini import GEMINI
from tools.real_clients.agents.kilo import KILO
from tools.real_clients.agents.opencode import OPENCODE
from tools.real_clients.agents.shells import SHELLS

AGENTS = (*CODEX, *CLAUDE, *GEMINI, *OPENCODE, *KILO, *COPILOT, *SHELLS)
