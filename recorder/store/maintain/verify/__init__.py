"""The proof that the log is unchanged since it was recorded: hashes, bodies, projections and the
manifest.

Must not know: how rows were written. It reads them over a separate connection.
"""
