"""Journals without a database: an edge ships the segments of its journal, a collector takes them
into the log.

Must not know: the proxy, clients, the command line. A bucket has `RECORDER/segment` for each
segment, whose name has its checksum; it is the queue between the two, and neither knows the other.
"""
