"""Journal to log: records of exchanges become events, and journals that were left behind are recovered.

Must not know: the proxy, clients, the command line. It takes a journal's directory and a store.
"""
