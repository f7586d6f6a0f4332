"""The terms of the program: sessions, exchanges, events, facts and recordings. Pure.

Must not know: wire formats, files, databases, clocks.
"""
