"""Faults injected into a response on purpose: errors, delays, cuts, stalls, lost and damaged
events.

Must not know: what was recorded. A fault changes the response of any transport.
"""
