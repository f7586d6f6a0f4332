"""The whole program, as its users meet it: real processes, real sockets, a real database.

Nothing in here calls the code that it is about, other than to start it; what the log holds is read
with `sqlite3`.
"""
