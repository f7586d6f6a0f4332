"""Cassettes of VCR (vcrpy, pytest-recording, Ruby's VCR): a reader and a writer.

Must not know: where sessions are stored.
"""
