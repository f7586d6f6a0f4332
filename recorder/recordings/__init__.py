"""Recordings held in memory: loaded from the log, from a file of any format or from a journal in memory, with one
limit (`recorder.model.recording.MEMORY_LIMIT`).

Must not know: the command line, what recordings are wanted for, and that a log can be behind its journals: whoever
loads brings the log.
"""
