"""The servers of the verbs: a recorder with its ingester process, metrics, admin port; a mock.

Must not know: what a verb prints.
"""
