"""The options of OpenTelemetry that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def content_option(command: Command) -> Command:
    """Add `--content`."""
    return click.option(
        "--content",
        is_flag=True,
        help="OpenTelemetry: also texts of requests, responses and tools, which may be private. Without it none is "
        "written.",
    )(command)


def convention_option(command: Command) -> Command:
    """Add `--convention`: without it, the newest one."""
    return click.option(
        "--convention",
        metavar="VERSION",
        help="OpenTelemetry: the version of the semantic conventions that names are of, 1.41.0 (default) or 1.37.0.",
    )(command)


def otlp_options(command: Command) -> Command:
    """Add the options of `export` for this format."""
    metrics = click.option("--metrics", is_flag=True, help="OpenTelemetry: one line of metrics in place of spans.")
    return content_option(convention_option(metrics(command)))
