"""Checks of one exchange against the rules of its protocol, for a given client (a profile).

Must not know: where recordings come from. Pure: a recording with its events in, findings out.

A further rule is a `Rule` in one tuple `RULES`, and what finds its fault:

    http, sse                  for all APIs, or some of them: the rules, and a function for each
    recorder/wire/dialects/<format>/lint
                               for one format; those of Chat, Messages and Gemini share a walk in `chunks` or `message`
                               that reports each fault by the id of a rule, those of Responses stand beside their
                               functions, in one module for each subject; `shapes` has the declared fields

`linter` joins the tuples, and judges by them: it is loaded after the rules, which import what is here. The tests want a
broken stream for each rule (`MUTATIONS` in `tests/unit/lint/`), and `make docs` makes a page of the rules.
"""
