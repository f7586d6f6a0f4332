"""The words of the program: sessions, exchanges, events and what is said of them. Pure.

Must not know: wire formats, files, databases, clocks.
"""
