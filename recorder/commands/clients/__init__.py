"""How each client program is pointed at a server of ours, and run as a child.

Must not know: recordings.
"""
