"""The proof of a gateway: a fixed set of requests, what their answers must be, and the report.

Must not know: the command line, how a recorder is started, where the log is.

A case is one request and its expectations. Its answer is judged by the rules of `recorder lint`, by
what the case expects, and by the official SDK, which reads the recorded bytes again: so each
request is paid for once.

    cases       what a case is, and the common cases; those of one API are in `probe` in the folder of its format
    apis        the APIs that can be probed
    runner      sends the requests of the cases, one after another, within limits of time and size
    answer      a recorded answer as the checks look at it
    checks      what a case may expect; a check reports the faults that it finds by the ids of `rules`
    sdks        reads the recorded bytes by the official SDK
    judge       cases and recordings in, verdicts out
    report      verdicts as lines, JSON and JUnit

A further check is a row in `rules.RULES`, a function in `checks`, and its name in the cases that
expect it.
"""
