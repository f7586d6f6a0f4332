"""A verb whose words after `--` are a command."""

from __future__ import annotations

from typing import Any

import click


class WithWords(click.Command):
    """A command that gets the words after `--` as `words`: none, if there is no `--`."""

    def __init__(self, *arguments: Any, words_metavar: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._words_metavar = words_metavar

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:place])
        ctx.params["words"] = tuple(args[place + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), self._words_metavar]
