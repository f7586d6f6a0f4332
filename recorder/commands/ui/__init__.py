"""What verbs share towards a person: output, tables, times, options, settings.

Must not know: servers.
"""
