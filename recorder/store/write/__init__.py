"""Rows enter the log, and what they mean becomes rows of the projections, in one transaction.

Must not know: journals, HTTP, the command line.
"""
