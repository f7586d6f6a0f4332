"""docs/testing.md: its tests are recorded and replayed, its messages are printed, its tables have
all there is.
"""

from __future__ import annotations

import gc
import re
import tomllib
import warnings
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from recorder import pytest_plugin
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.files import save
from recorder.model.events import Session
from recorder.replay.faults.forms import FORMS
from recorder.replay.matching.noise import rules_from
from recorder.testing import fixture, replay_transport, settings
from tests.acceptance.testing.test_pytest_sdks import NAMES, Demo
from tests.acceptance.testing.test_recording import with_a_gap
from tests.support.console import blocks
from tests.support.corpus import ROOT
from tests.support.facts import captured
from tests.support.projects import Project, Upstream, stream

pytest_plugins = ["pytester"]

PAGE = (ROOT / "docs" / "testing.md").read_text()
TESTS = "\n".join(block for block in blocks(PAGE, "python") if "def test_" in block)
SNIPPETS = [block for block in blocks(PAGE, "python") if "def test_" not in block]
MESSAGES = [block for block in blocks(PAGE, "text") if block.startswith("recorder: ")]
CASSETTE = "cassettes/test_chat/test_greeting.sse.jsonl"
ANSWER = b'{"id":"resp_1","object":"response","status":"completed","output":[]}'


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    """What is shown closes no clients, as most tests do not: that is done here, where their
    warnings are not errors.
    """
    yield
    with warnings.catch_warnings(action="ignore"):
        gc.collect()


def hold(path: Path) -> None:
    """A cassette of the first test shown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    request = b'{"model":"gpt-5","input":"Say hello."}'
    episode = captured(ANSWER, request=request, content_type="application/json")
    save(path, cassette_lines(Session("s-1", 1_000, "demo", "path", "{}", "live"), [episode]))


STREAMED = """
@pytest.mark.recorder(fault="cut@12")
def test_greeting(recorder_replay):
    client = OpenAI(base_url=recorder_replay.base_url("openai"), api_key=KEY)
    list(client.responses.create(model="gpt-5", input="hi", stream=True))
"""
STREAMS = """    list(client.responses.create(model="gpt-5", input="Say hello.", stream=True))
"""
SENT_TWICE = """
def test_greeting(recorder_replay):
    client = OpenAI(base_url=recorder_replay.base_url("openai"), api_key=KEY)
    client.responses.create(model="gpt-5", input="I am ada@example.org.", metadata={"email": "ada@example.org"})
"""


def refusal(project: Project, imports: str) -> str:
    """What is said where something private stands in two places, and is named in one."""
    project.pytester.makepyfile(test_chat=imports + SENT_TWICE)
    with Demo() as base:
        project.pytester.makeini(
            f"[pytest]\nrecorder_upstream = openai={base}\nrecorder_redact = fields:metadata.email"
        )
        return project.said("--recorder-mode=rewrite", "-Wignore", passed=1, errors=1)


def test_the_tests_shown_are_recorded_and_then_need_nobody(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.pytester.makepyfile(test_chat=TESTS)
    count = TESTS.count("def test_")
    with Demo() as base, monkeypatch.context() as there:
        for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            there.setenv(name, base)
        there.setenv("OPENAI_BASE_URL", f"{base}/v1")
        upstreams = "\n  ".join(f"{name}={base}" for name in NAMES)
        project.pytester.makeini(f"[pytest]\nrecorder_upstream =\n  {upstreams}")
        project.said("--recorder-mode=once", "-Wignore", passed=count)
    [settings] = blocks(PAGE, "ini")
    project.pytester.makeini(settings)
    (project.pytester.path / "recorder.toml").write_text(blocks(PAGE, "toml")[0])
    project.said("-Wignore", passed=count)


PAST = """
    with contextlib.suppress(httpx.ProxyError):
        httpx.get("https://api.anthropic.com/v1/models")
"""


def test_the_messages_shown_are_printed(project: Project) -> None:
    first = blocks(PAGE, "python")[0]
    path = project.pytester.path / CASSETTE

    def said(text: str, **outcomes: int) -> str:
        project.pytester.makepyfile(test_chat=text)
        return project.said("-Wignore", **outcomes)

    printed = [said(first, errors=1)]
    hold(path)
    printed += [said(first.replace('"Say hello."', '"Say hallo."'), failed=1)]
    printed += [said("def test_greeting(recorder_replay): ...", passed=1, errors=1)]
    imports = f"import pytest\n{first.split('def ')[0]}"
    hold(path)
    printed += [said(f"import contextlib\nimport httpx\n{first}{PAST}", passed=1, errors=1)]
    project.holds("hi", path=CASSETTE, body=stream(), model="gpt-5")
    printed += [said(imports + STREAMED, passed=1, errors=1), refusal(project, imports)]
    session, exchange, events = with_a_gap()
    save(path, cassette_lines(session, [(exchange, events)]))
    printed += [said(first, errors=1), verified(project, first, path)]
    for message, whole in zip(MESSAGES, printed, strict=True):
        assert without_ids(message) in without_ids(whole)


def verified(project: Project, test: str, path: Path) -> str:
    """What is said of a provider whose model calls another tool than before."""
    upstream = Upstream()
    try:
        project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}")
        path.unlink()
        project.pytester.makepyfile(test_chat=test.split("    answer =")[0] + STREAMS)
        project.said("--recorder-mode=once", "-Wignore", passed=1)
        upstream.answer = stream().replace(b'"name":"look"', b'"name":"peek"')
        return project.said("--recorder-mode=verify", "-Wignore", passed=1, errors=1)
    finally:
        upstream.close()


def without_ids(text: str) -> str:
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "…", text).replace("/openai/v1/", "/v1/")


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_the_snippets_shown_run(
    snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(tmp_path / "run.sse.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    if "recording_transport" not in snippet:
        exec(compile(snippet, "testing.md", "exec"), {})
        return
    with Demo() as base:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{base}/v1")
        exec(compile(snippet, "testing.md", "exec"), {})


def table(heading: str) -> set[str]:
    """What stands in the first column of the first table of a section."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_setting_is_documented() -> None:
    source = Path(pytest_plugin.__file__).read_text()
    assert table("The ini file") == set(re.findall(r'addini\(\s*"(\w+)"', source))
    assert table("Modes") == set(pytest_plugin.MODES)
    assert table("The marker") == set(settings.KEYWORDS)
    assert table("Transports without pytest") == set(signature(replay_transport).parameters) - {
        "recordings"
    }
    assert {
        re.split("[@:]", form)[0] for form in table("Faults") if not form.startswith(":")
    } == set(FORMS)
    members: set[str] = {
        re.split(r"[.(]", name)[1] for name in table("The fixture") if name.startswith(".")
    }
    assert members - {"text", "tool_calls", "usage", "events"} <= set(vars(fixture.Replay))


def test_every_key_of_a_match_is_documented_and_one() -> None:
    given: dict[str, Any] = tomllib.loads(blocks(PAGE, "toml")[0])["match"]
    rules_from(given)
    with pytest.raises(ValueError, match="it has") as refused:
        rules_from({"": 1})
    assert ", ".join(given) in str(refused.value)
