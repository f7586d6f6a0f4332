"""Recordings held in memory: loaded from the log, from a file of any format, or from a journal in
memory.

Must not know: the command line, what recordings are used for, and that a log can be behind its
journals: the caller updates the log before it loads. All loaders share one limit
(`recorder.model.events.MEMORY_LIMIT`).
"""
