"""Replay over WebSocket: handshakes, turns that are matched one by one, and connections that are
played back.

Must not know: where recordings come from.
"""
