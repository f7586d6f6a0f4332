"""The provider of `recorder demo`: wire formats without key or network, from bundled recordings.

Must not know: sessions, and where they are stored.
"""
