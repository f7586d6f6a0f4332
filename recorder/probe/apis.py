"""The APIs that can be probed: each format whose folder has a module `probe`."""

from __future__ import annotations

from collections.abc import Mapping

from recorder.probe.cases import ProbeApi
from recorder.wire.dialects import parts

APIS: Mapping[str, ProbeApi] = {name: module.API for name, module in parts("probe").items()}
"""By the name of their format."""
