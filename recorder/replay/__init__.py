"""Recordings as an upstream: matched to requests and answered at their original pace, with faults
if wanted.

Must not know: where recordings come from (a log, a file), and the command line.
"""
