"""An event-sourced recorder and replay store for stream sessions.

Importing this package loads nothing heavy: no SQL, no HTTP, no command line. The names on
docs/api.md are stable; all others are private, and may move.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
