"""Secrets, removed before anything is written: from headers and URLs (`headers`), from request
bodies (`bodies`). Pure.

Must not know: who calls it. `shapes` knows what keys look like, `unescape` how JSON may hide them.
"""
