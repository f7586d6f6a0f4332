"""The meaning of the log as tables: events → facts → rows, and the SQL views on them.

Must not know: the database.

`fact_reader` gives an event to the decoder of its dialect (`recorder.wire.dialects`), which returns facts; `fold` gives
the facts to each projection, which makes rows: `items` follows messages, reasoning and tool calls, and `item` makes the
row of each. `recorder.store.write.projector` writes the rows. A further projection is a module with a fold, its line in
`fold`, its row and its table in `rows`, and a migration that creates the table.
"""
