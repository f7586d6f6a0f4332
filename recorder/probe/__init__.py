"""The proof of a gateway: a fixed set of requests, what their answers must be, and the report.

Must not know: the command line, how a recorder is started, where the log is.

A case is one request and its expectations. Its answer is judged by the rules of `recorder lint`, by what the case
expects, and by the official SDK, which reads the recorded bytes again: so each request is paid for once.
"""
