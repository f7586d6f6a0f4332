"""The versions of the OpenTelemetry conventions for generative AI that can be written, by their names: a table.

The mapping uses the names of the newest version. An older version lists the names that it does not have: these are left
out. Source: open-telemetry/semantic-conventions, docs/gen-ai; 1.41 is the last release with them, later ones refer to a
repository that has released nothing yet.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recorder.errors import UsageError
from recorder.exports.otlp.telemetry import Attributes


class Convention(msgspec.Struct, frozen=True):
    """A version of the conventions."""

    version: str
    absent: frozenset[str] = frozenset()  # names of attributes and metrics of the newest that it does not have

    @property
    def schema_url(self) -> str:
        return f"https://opentelemetry.io/schemas/{self.version}"

    def known(self, attributes: Attributes) -> Attributes:
        """Return the attributes without those that this version does not have."""
        return {name: value for name, value in attributes.items() if name not in self.absent}


CONVENTIONS: Mapping[str, Convention] = {
    each.version: each
    for each in (
        Convention("1.41.0"),
        Convention(
            "1.37.0",
            frozenset(
                {
                    "gen_ai.request.stream",
                    "gen_ai.response.time_to_first_chunk",
                    "gen_ai.usage.cache_creation.input_tokens",
                    "gen_ai.usage.cache_read.input_tokens",
                    "gen_ai.usage.reasoning.output_tokens",
                    "gen_ai.tool.call.arguments",
                    "gen_ai.tool.call.result",
                    "gen_ai.client.operation.time_to_first_chunk",
                }
            ),
        ),
    )
}
NEWEST = next(iter(CONVENTIONS))


def convention_of(version: str | None = None) -> Convention:
    """Return the convention of a version, or the newest. Raises `UsageError` with the versions that there are."""
    found = CONVENTIONS.get(version or NEWEST)
    if found is None:
        raise UsageError(f"There is no convention {version!r} here: give one of {', '.join(CONVENTIONS)}.")
    return found
