"""Journal to log: records of exchanges become events, and the journals of killed recorders are
recovered.

Must not know: the proxy, clients, the command line. It takes a journal's directory and a store.
"""
