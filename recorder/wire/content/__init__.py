"""Bodies and events without what people and models wrote in them: each text becomes filler. Pure.

`filler` makes it, character by character; `shape` says which strings of a payload are texts. Must not know: who calls.
"""
