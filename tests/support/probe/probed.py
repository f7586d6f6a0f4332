"""A probe around a test: its requests go through a recorder that writes into memory, and the answers are judged."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

from recorder.probe import APIS
from recorder.probe.judge import CaseVerdict, judge
from recorder.probe.runner import ProbeSettings, send_all
from recorder.probe.sdks import reader_for
from recorder.proxy.app import Proxy
from recorder.proxy.recording import RecordingTransport
from recorder.proxy.routing import Routes, parse_upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.recordings.memory import MemoryJournal
from recorder.wire.dialects import by_name
from tests.support.event_loop import DEADLINE_S
from tests.support.proxy import served

SESSION = "probe"
KEY = "sk-good"
SILENCE_S = DEADLINE_S


async def probed(
    url: str, api_name: str, only: Collection[str] = (), *, reads_with_sdk: bool = True
) -> Sequence[CaseVerdict]:
    """The verdicts of a probe of that URL: of all cases of an API, or of some. The SDK takes most of the time."""
    api, journal = APIS[api_name], MemoryJournal()
    cases = [(case, mode) for case in api.cases if not only or case.name in only for mode in case.modes]
    missing = set(only) - {case.name for case, _ in cases}
    assert not missing, f"{api_name} has no case {missing}"
    transport = RecordingTransport(UpstreamTransport(), journal)
    proxy = Proxy(transport, Routes([parse_upstream(f"{by_name(api.name).upstream}={url}")]))
    async with contextlib.aclosing(transport), served(proxy, proxy.shutdown) as server:
        settings = ProbeSettings(f"http://127.0.0.1:{server.port}", KEY, api.model, SILENCE_S)
        sent = await send_all(api, cases, settings, lambda _: None)
    _, reader = reader_for(api.name)
    assert reader is not None, f"the SDK of {api_name} is not installed"
    return judge(sent, journal.recordings(SESSION), reader if reads_with_sdk else lambda answer: ())


def faults_in(verdicts: Sequence[CaseVerdict]) -> dict[str, list[str]]:
    """The errors and warnings of each verdict, by their rules: `{"text streamed": ["RS002"]}`."""
    found = {
        f"{each.case} {each.mode}": [finding.rule for _, finding in each.findings if finding.severity != "note"]
        for each in verdicts
    }
    return {where: rules for where, rules in found.items() if rules}
