"""The upkeep of a log: migration, verification, copies, purges, rebuilds, and its health.

Must not know: HTTP, the command line.
"""
