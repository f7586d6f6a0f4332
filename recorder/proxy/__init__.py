"""Between client and upstream: what passes is forwarded, and recorded before it is forwarded.

Must not know: the database, and what the bytes mean.
"""
