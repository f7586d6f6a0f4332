"""Bytes to meaning: server-sent events, WebSocket, content codings, dialects of the providers,
sessions, secrets. Pure.

Must not know: where bytes come from or where they are kept: no sockets, files, databases or clocks.
"""
