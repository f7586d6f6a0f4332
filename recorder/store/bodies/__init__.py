"""Request bodies that repeat earlier ones, stored once: `dedup` finds the repeated bytes, `appender` writes the rows,
`rows` reads them.

Must not know: what a body means.
"""
