"""The log in the formats of other systems: Parquet for analysts, OTLP for operations, chat JSONL
for training, the work of agents for benchmarks.

Must not know: the command line, HTTP servers, how an engine stores a log.

An export changes nothing that was recorded. It can be done again, and gives the same: names, ids
and times are those of the log.
"""
