"""The log as OpenTelemetry: one trace a session, one span an exchange, spans of tools, histograms
of tokens and times.

Must not know: the command line, HTTP, how an engine stores a log.

The way of the data: `source` reads the rows that the projections have of some exchanges, and texts,
only on request; `spans` turns them into what OTLP/JSON has, under the names of a pinned convention
(`telemetry`). Ids and times come from the log alone: the same exchange gives the same bytes
whenever it is exported.
"""
