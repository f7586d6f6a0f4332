"""Real clients at pinned versions, run through the recorder against the demo upstream:
`python -m tools.real_clients`.

program    a script over an SDK or a framework; `programs` has them client     a client of any kind:
what it is made of, how it is started, how its tokens are read; `agents` has them __main__
installs, runs and tables them cached     records sessions of two of them again, for the tests of
the prompt cache
"""
