"""The way of sessions from a log into an archive, and a log that is read together with its archives.

Must not know: HTTP, journals' contents, the command line.

A session is in the log, in the archive, or for a moment in both: never in neither.
"""
