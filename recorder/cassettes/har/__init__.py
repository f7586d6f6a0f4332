"""HAR 1.2, the archive format of browsers: a reader and a writer.

Must not know: where sessions are stored.
"""
