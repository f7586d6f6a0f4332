"""Prices: rows that say what a provider charges for a unit of a model, since when and until when.

Must not know: the log's events, and what an exchange costs. The view `costs`
(`recorder.projections.views.cost`) joins these rows with the usage of exchanges.

`genai` asks the package genai-prices, `own_file` reads a `prices.toml`; both give rows of
`catalog`. `schedule` says which rows of the table to close and which to open, and `table` does it.
"""
