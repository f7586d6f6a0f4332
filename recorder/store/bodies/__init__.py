"""Request bodies that repeat earlier ones, stored once: where the repeated bytes are, and how rows are written and
read.

Must not know: what a body means.
"""
