"""Grouping of requests: the session of a request, its purpose, and the conversation that it
repeats. Pure.

Must not know: the log. It reads one request at a time; `ingest` looks up what was there before.
"""
