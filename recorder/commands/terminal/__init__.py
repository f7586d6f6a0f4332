"""The user interface of the verbs: output, tables, times, options, settings.

Must not know: servers.
"""
