#!/usr/bin/env python3
"""Run recorder from a checkout: `python cli.py sessions` is `recorder sessions`."""

from recorder.__main__ import main

if __name__ == "__main__":
    main()
