"""What verbs share that run a server: the recorder at work, its ingester process, metrics, admin port.

Must not know: what a verb prints.
"""
