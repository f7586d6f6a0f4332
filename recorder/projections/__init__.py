"""The meaning of the log as tables: events → facts → rows, and the SQL views on them.

Must not know: the database.

`fact_reader` gives an event to the decoder of its dialect (`recorder.wire.dialects`), which returns
facts; `fold` gives the facts to each projection, which makes rows: `items` follows messages,
reasoning and tool calls, and `item` makes the row of each. `recorder.store.write.projector` writes
the rows. A further projection is a module with a fold, its line in `fold`, its row and its table in
`rows`, and a migration that creates the table.

Rules of this folder:

* Pure: no clock, no database, no other exchange. The same events give the same rows, in whatever
  batches they come, and every prefix of them is legal.
* Nothing stops a fold: what is missing, repeated, reordered or garbled is an anomaly and a value
  that is `NULL`.
* Most projections are functions of facts that are gathered once (`exchange_facts`); each other one
  is a class, with a handler by the class of a fact.
* Whoever changes what a projection computes has a migration say that a rebuild is due.
"""
