"""Maintenance of databases and the journals beside them: backup, purge, recovery, checks.

Must not know: the proxy.
"""
