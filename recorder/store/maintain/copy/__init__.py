"""The copy of a log into another database: `source` reads, `target` writes, `copy` verifies.

Must not know: which engines the two sides are.
"""
