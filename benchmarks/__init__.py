"""Benchmarks: `python -m benchmarks`, or `make bench`.

Rules of this folder:

* Alternatives are measured in one run, in rounds, in random order within a round, and compared
  within a round. Absolute values move from machine to machine; ratios hold.
* What is measured is a process of its own on a core of its own. Upstream and clients are this
  process, on another core.
* A benchmark never asserts.
"""
