"""Client programs: how each is pointed at a server of ours, and run as a child process.

Must not know: recordings.
"""
