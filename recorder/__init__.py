"""An event-sourced recorder and replay store for stream sessions.

Importing this package loads nothing heavy: no SQL, no HTTP, no command line. Import what you need from its modules.
"""

__version__ = "0.1.0"
