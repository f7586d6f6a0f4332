"""Checks of one exchange against the rules of its protocol, for a given client (a profile).

Must not know: where recordings come from. Pure: a recording with its events in, findings out.

Rules are written as text; a walk (`rule.StreamWalk`) follows the blocks of a stream and reports
each fault by the id of the rule that names it. A further rule is a few lines in one of the texts,
and what finds its fault in the walk beside:

    http, sse                  for all APIs, or some of them
    recorder/wire/dialects/<format>/lint
                               for one format; `shapes` has the declared fields

`linter` joins the rules, and judges by them in one pass: it is loaded after the rules, which import
what is here. The tests want a broken stream for each rule (`MUTATIONS` in `tests/unit/lint/`), and
`make docs` makes a page of the rules.
"""
