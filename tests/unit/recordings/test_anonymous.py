"""Sessions as one may publish them: nothing of a text is left, and all that is counted stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from recorder.lint.linter import lint
from recorder.model.events import Event, Exchange, Recording
from recorder.model.facts import Usage
from recorder.recordings.anonymous import Anonymizer
from recorder.recordings.session import projected
from recorder.wire.recording import payloads, recording_of
from tests.support.corpus import CORPUS, corpus_index, each_stream
from tests.support.facts import EXCHANGE, PATHS, captured
from tests.support.sdks import reading

WORDS = 5  # in a row, with what is between them: as many of a text must not survive
_RUN = re.compile(r"(?=\b(\w+" + r"\W+\w+" * (WORDS - 1) + "))")
KEY = b"k" * 32

Entry = dict[str, Any]


@cache
def both(file: str) -> tuple[Recording, Recording]:
    """A stream of the corpus with its request, where that is known, and the same as it may be
    published.
    """
    [entry] = [each for each in corpus_index() if each["file"] == file]
    stem = CORPUS / file
    request = stem.with_suffix(".request.json")
    asked = json.loads(request.read_text()).get("body") if request.exists() else None
    api = {"openai-completions": "openai-chat"}.get(entry["provider"], entry["provider"])
    api = api if api in PATHS else "other"
    exchange = msgspec.structs.replace(EXCHANGE, api=api, target=PATHS[api])
    body = json.dumps(asked).encode() if asked else b""
    recorded, events = captured(stem.read_bytes(), exchange=exchange, request=body)
    return recording_of(recorded, events), published(recorded, events)


def published(exchange: Exchange, events: list[Event]) -> Recording:
    anonymizer = Anonymizer(KEY)
    return recording_of(anonymizer.exchange(exchange), anonymizer.events(exchange, events))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def runs(recording: Recording) -> set[str]:
    """The runs of words in the texts of a recording; a name of a model, or a time, is not a text."""
    found: set[str] = set()
    for document in (recording.request_body, *payloads(recording)):
        try:
            value = json.loads(document)
        except ValueError:
            value = document.decode()
        for text in strings(value):
            found.update(run for run in _RUN.findall(text) if " " in run)
    return found


def counted(recording: Recording) -> list[Any]:
    """What lint, usage, times and items say of a recording, without its texts."""
    rows = projected(recording.exchange, recording.events)
    [exchange] = rows["exchanges"]
    usage = [[getattr(row, name) for name in Usage.__struct_fields__] for row in rows["usage"]]
    times = [msgspec.structs.astuple(row)[2:] for row in rows["timing"]]
    items = [
        [row.kind, row.type, row.name, len(row.text or ""), len(row.arguments or "")]
        for row in rows["items"]
    ]
    anomalies = [[row.kind, row.pos, row.count] for row in rows["anomalies"]]
    findings = [
        [each.rule, each.count, [hit.pos for hit in each.places]] for each in lint(recording)
    ]
    status = [exchange.status, exchange.finish_reason, exchange.error_type, exchange.stream]
    return [status, usage, times, items, anomalies, findings]


def form(value: Any) -> Any:
    """What an SDK hands on, without its texts, and without names of arguments."""
    if isinstance(value, dict | list | tuple):
        return [form(inner) for inner in (value.values() if isinstance(value, dict) else value)]
    return type(value).__name__


@each_stream(corpus_index())
def test_no_run_of_five_words_survives(entry: Entry) -> None:
    recorded, shape = both(entry["file"])
    assert runs(recorded) & runs(shape) == set()


@each_stream(corpus_index())
def test_lint_usage_times_and_items_are_as_before(entry: Entry) -> None:
    recorded, shape = both(entry["file"])
    assert counted(shape) == counted(recorded)


@each_stream(
    [
        entry
        for entry in corpus_index()
        if entry["provider"] in ("openai-chat", "openai-responses", "anthropic")
    ]
)
def test_sdks_read_the_shape_of_a_stream_as_they_read_it(entry: Entry) -> None:
    recorded, shape = both(entry["file"])
    before, after = (reading(each.exchange.api, each.body) for each in (recorded, shape))
    assert (type(after.error), form(after.said)) == (type(before.error), form(before.said))
