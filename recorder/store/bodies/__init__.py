"""Request bodies that repeat earlier ones, stored once: `dedup` finds the repeated bytes, `rows` writes and reads the
rows.

Must not know: what a body means.
"""
