"""The pytest plugin: hooks only, and the fixture `recorder_replay`.

    @pytest.mark.recorder(speed=1)
    def test_weather(recorder_replay):
        client = OpenAI(base_url=recorder_replay.base_url("openai"), api_key="none")

It is loaded in every test run where this package is installed: the fixture imports everything that
it needs.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from recorder.errors import UsageError
from recorder.program import load

if TYPE_CHECKING:
    from recorder.testing.fixture import Replay

LISTED = 20  # cassettes that a summary names: what fits a terminal
MODES = ("none", "once", "new_episodes", "all", "rewrite", "verify")
MARKER = (
    "recorder(cassette or session, speed, fault, upstream, match, allow_network, verify): how `recorder_replay` "
    "answers; without that fixture, variables as OPENAI_BASE_URL point clients at it; a cassette's path begins beside "
    "the test file, and is <cassette dir>/<module>/<test>.sse.jsonl if none is named."
)

_REPLAY = pytest.StashKey["Replay"]()
_PASSED = pytest.StashKey[bool]()
_BEGAN_NS = pytest.StashKey[int]()
_FIXTURE = "recorder_replay"
_POINTS = pytest.StashKey[bool]()  # of a test with the marker alone: its clients are pointed here
_BEGAN = "recorder_began_ns"  # of a run, for the processes of pytest-xdist
_MESSAGE = "recorder"  # a property of a report: what there is to say of a test that passed


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("recorder", "replay of recorded LLM streams")
    group.addoption(
        "--recorder-mode",
        choices=MODES,
        help="none: answer from cassettes only; once: record where there is no cassette; new_episodes: record what a "
        "cassette does not answer; all, or rewrite: record again; verify: ask the upstream, and fail where it differs "
        "from the cassette. Default: the ini key recorder_mode, else none.",
    )
    group.addoption(
        "--recorder-speed",
        metavar="1|N|max",
        default="max",
        help="A factor on the speed, if no marker has one.",
    )
    parser.addini(
        "recorder",
        "Whether every test is as with a marker of its module.",
        type="bool",
        default=False,
    )
    parser.addini("recorder_mode", "The mode of a run without --recorder-mode.", default="none")
    parser.addini(
        "recorder_cassette_dir",
        "The directory of cassettes, beside each test file.",
        default="cassettes",
    )
    parser.addini(
        "recorder_match",
        "A TOML file with a table [match], in place of recorder.toml beside the ini file.",
        default="",
    )
    parser.addini(
        "recorder_redact",
        "fields:PATH, headers:NAME, parameters:NAME or text:REGEX: what no cassette may contain.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "recorder_allow_network",
        "Allow replayed tests to reach other hosts.",
        type="bool",
        default=False,
    )
    parser.addini(
        "recorder_verify",
        "The levels of `recorder diff` at which the mode verify compares. Default: shape.",
        type="args",
        default=[],
    )
    parser.addini(
        "recorder_upstream", "NAME=URL: the address to record from.", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    if (mode := config.getini("recorder_mode")) not in MODES:
        raise pytest.UsageError(
            f"recorder_mode = {mode} is not a mode: use one of {', '.join(MODES)}."
        )
    config.stash[_BEGAN_NS] = getattr(config, "workerinput", {}).get(_BEGAN, time.time_ns())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests with the marker, or all if the ini file says so, the fixture.

    Check the settings once, if a test needs them: a run without such a test loads nothing for it.

    A process of pytest-xdist cannot stop the run: there the tests fail one by one, with the same
    sentence.
    """
    is_for_all = config.getini("recorder")
    for item in items:
        if not isinstance(item, pytest.Function) or _FIXTURE in item.fixturenames:
            continue
        if is_for_all or item.get_closest_marker("recorder"):
            # Before those which make a client. The list is shared by the tests of a function with
            # parameters.
            item.fixturenames = [_FIXTURE, *item.fixturenames]
            item.stash[_POINTS] = True
    is_worker = hasattr(config, "workerinput")
    if is_worker or not any(_FIXTURE in getattr(item, "fixturenames", ()) for item in items):
        return
    try:
        load("recorder.testing.settings:check")(config)
    except UsageError as error:
        raise pytest.UsageError(f"recorder: {error}") from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a pytest-xdist worker the start time of its parent's run."""
    node.workerinput[_BEGAN] = node.config.stash[_BEGAN_NS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
        if (
            report.failed
            and _REPLAY in item.stash
            and (message := item.stash[_REPLAY].explanation())
        ):
            report.sections.append(("recorder", message))
    return report


@pytest.fixture
def recorder_replay(request: pytest.FixtureRequest) -> Iterator[Replay]:
    """Give the recordings that answer this test: `.base_url(name)`, `.transport()`,
    `.async_transport()`, `.requests`, `.session`. An unrecorded request fails the test at its end,
    and so does an unused recording.
    """
    config = request.config
    mode = config.getoption("recorder_mode") or config.getini("recorder_mode")
    points_clients = request.node.stash.get(_POINTS, False)
    has_own = any(marker.name == "recorder" for marker in request.node.own_markers)
    replay: Replay = load("recorder.testing.fixture:opened")(
        request.node, mode, config.stash[_BEGAN_NS], is_of_many=points_clients and not has_own
    )
    request.node.stash[_REPLAY], request.node.stash[_PASSED] = replay, False
    variables = replay.variables(points_clients=points_clients)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        yield replay
    if message := replay.close(passed=request.node.stash[_PASSED]):
        request.node.user_properties.append((_MESSAGE, message))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    messages: list[str] = []
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if getattr(report, "when", "") == "teardown":
            messages += [message for name, message in report.user_properties if name == _MESSAGE]
    for message in messages[:LISTED]:
        terminalreporter.write_line(f"recorder: {message}")
    if len(messages) > LISTED:
        terminalreporter.write_line(f"recorder: {len(messages) - LISTED} cassettes more.")
