"""The log is read: sessions, exchanges and events, sums, and the user's own SQL.

Must not know: what writes to the log.
"""
