"""A log moves to another database: read from the `source`, written to the `target`, verified by `copy`.

Must not know: which engines the two sides are.
"""
