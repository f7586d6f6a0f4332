"""`recorder otlp push` in a process of its own, with batches of a few spans."""

from __future__ import annotations

from recorder.commands import main

BATCH = 3  # spans


def push_in_small_batches(arguments: list[str]) -> object:
    from recorder.exports.otlp import push

    push.BATCH_SPANS = BATCH
    return main(arguments)
