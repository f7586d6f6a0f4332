"""The views of a log, and its events, as datasets of Parquet that other programs read.

Must not know: how a log is read by Python, and what a command prints. DuckDB reads the log and
writes the files.
"""
