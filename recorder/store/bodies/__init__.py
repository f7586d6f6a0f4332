"""Request bodies that repeat earlier ones, stored once: `dedup` finds the repeated bytes, `rows`
reads the rows, and `recorder.store.write.writer` writes them.

Must not know: what a body means.
"""
