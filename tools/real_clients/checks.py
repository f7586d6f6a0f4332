"""What is asked of each client, one check a column. A check returns nothing, or raises `Failed`
with the reason.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.real_clients.client import (
    ANSWERED,
    COLUMNS,
    SLOW_BEGIN,
    SLOW_END,
    SLOW_WORD,
    Client,
    Said,
)
from tools.real_clients.stage import Done, Failed, Stage, Waived, last_line

SESSION = "loop"
YES = "yes"
BROKEN = ["failed", "truncated", "truncated"]  # what `relay` makes of the first turns
SWITCHED = 101  # status of a WebSocket connection and of its turns
_UNCONNECTED = re.compile(
    r".*(?:Refused, and not recorded|codex_api::|Reconnecting|Falling back).*"
)


class Trial:
    """All checks of one client, in order; what a later one needs of an earlier one is kept here."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.client: Client = stage.client
        self.said = Said("")
        self._is_quiet = self.client.websocket and not self.client.is_broken

    def results(self) -> Iterator[tuple[str, str]]:
        """Run the checks; gives each column with `yes`, or with what was wrong."""
        is_recorded = True
        for column in COLUMNS:
            if column in self.client.waived:
                yield column, f"– {self.client.waived[column]}"
                continue
            if not is_recorded and column not in ("grouped", "interrupted"):
                yield column, "no: nothing was recorded"
                continue
            try:
                _CHECKS[column](self)
            except Waived as waived:
                yield column, f"– {waived}"
            except Failed as failed:
                is_recorded = is_recorded and column != "recorded"
                yield column, f"no: {failed}"
            else:
                yield column, YES

    def recorded(self) -> None:
        done = self.stage.record("--session", SESSION, command=self.client.loop).expect_success()
        self.said = self._read(done)
        self.stage.settle()
        rows = self.stage.ask(
            "SELECT method, target, status, http_status FROM exchange_summary WHERE session_name = ?",
            SESSION,
        )
        if not rows:
            raise Failed(f"no exchange: {done.complaint}")
        for row in rows:
            if row["status"] != "completed" and not self.client.is_broken:
                raise Failed(f"{row['method']} {row['target']} is {row['status']}")
            if self.client.websocket != (row["http_status"] == SWITCHED):
                raise Failed(
                    f"{row['method']} {row['target']} is answered with {row['http_status']}"
                )
        if self.client.websocket and "WEBSOCKET" not in (row["method"] for row in rows):
            raise Failed("no turn over WebSocket")
        broken = [row["status"] for row in rows if row["status"] != "completed"]
        if self.client.is_broken and sorted(broken) != BROKEN:
            raise Failed(f"these turns are not completed: {', '.join(broken)}")

    def grouped(self) -> None:
        database = self.stage.database.with_name("served.db")
        with self.stage.serve(database) as url:
            for command in (self.client.loop, self.client.again):
                if command:
                    self._read(self.stage.pointed(url, command).expect_success())
        self.stage.settle(database)
        sessions = self.stage.ask(
            "SELECT session_name, clients FROM session_summary WHERE source <> 'probe'",
            database=database,
        )
        if len(sessions) != 1:
            names = ", ".join(f"{row['session_name']} ({row['clients']})" for row in sessions[:4])
            raise Failed(f"{len(sessions)} sessions: {names}")
        lost = self.stage.ask(
            "SELECT name FROM tool_calls JOIN exchange_summary AS e USING (session_id, exchange_id) "
            "WHERE output IS NULL AND e.status = 'completed'",
            database=database,
        )
        if lost:
            raise Failed(f"no result of {lost[0]['name']}")

    def shown(self) -> None:
        shown = self.stage.recorder("show", SESSION).expect_success().stdout
        lines = shown.splitlines()
        if lines[1:2] != [self.client.prompt]:
            raise Failed(
                f"the title is {last_line(lines[1])!r}" if len(lines) > 1 else "there is no title"
            )
        if f"› {self.client.prompt}" not in lines:
            raise Failed("the prompt is not shown")
        for text in (
            *self.client.shows,
            *([self.said.text.splitlines()[0]] if self.said.text else ()),
        ):
            if text not in shown:
                raise Failed(f"{text[:40]!r} is not shown")

    def tokens(self) -> None:
        if self.said.input_tokens is None and self.said.output_tokens is None:
            raise Waived("it reports none")
        rows = self.stage.ask(
            f"SELECT sum({self.said.input}) AS input, sum(output_tokens) AS output FROM exchange_summary "
            f"WHERE session_name = ? AND superseded_by IS NULL AND ({self.said.where})",
            SESSION,
        )
        ours, theirs = (
            (rows[0]["input"], rows[0]["output"]),
            (self.said.input_tokens, self.said.output_tokens),
        )
        if ours != theirs:
            raise Failed(f"recorded {ours}, reported {theirs}")

    def replayed(self) -> None:
        for number in ("first", "second"):
            self._replay(SESSION, number)
        if self.client.has_http:
            self._replay(SESSION, "HTTP", "--no-websocket")

    def _replay(self, source: str, which: str, *options: str) -> None:
        words = ("--replay", source, "--speed", "max", *options, "--", *self.client.loop)
        with self.stage.gone():
            done = self.stage.recorder("run", *words, has_keys=False)
        if done.code:
            raise Failed(f"the {which} replay ends with {done.code}: {done.complaint}")
        if not options:
            self._expect_quiet(done)
        said = self.client.read(done.stdout, done.stderr)
        if self._without_own_ids(said.text) != self._without_own_ids(self.said.text):
            raise Failed(f"the {which} replay says {said.text[:80]!r}")

    def _without_own_ids(self, text: str) -> str:
        return re.sub(self.client.own_ids, "…", text) if self.client.own_ids else text

    def cassette(self) -> None:
        path = self.stage.work / "cassette.sse.jsonl"
        # some clients see the file in their directory, but not the first time
        for number in ("first", "second"):
            done = self.stage.record(
                "--cassette", path.name, command=self.client.loop
            ).expect_success()
            self.said = self._read(done)
            if f"Written to {path.name}." not in done.stderr:
                raise Failed(f"the {number} recording is not written: {done.complaint}")
            self._replay(path.name, f"{number} cassette's")

    def interrupted(self) -> None:
        name = "slow"
        self.stage.interrupt("--session", name, command=self.client.slow, when=SLOW_WORD)
        self.stage.settle()
        rows = self.stage.ask(
            "SELECT e.status, m.text FROM exchange_summary AS e JOIN messages AS m USING (session_id, exchange_id) "
            "WHERE e.session_name = ? AND m.text LIKE ?",
            *(name, f"{SLOW_BEGIN}%"),
        )
        if not rows:
            raise Failed("the text so far is not kept")
        if rows[0]["text"].endswith(SLOW_END):
            raise Failed("the client read to the end")
        if rows[0]["status"] != "client_disconnect":
            raise Failed(f"it ended as {rows[0]['status']}")

    def _expect_quiet(self, done: Done) -> None:
        """Refuse what a client says that goes on over HTTP, or connects again."""
        found = _UNCONNECTED.search(f"{done.stdout}\n{done.stderr}") if self._is_quiet else None
        if found:
            raise Failed(f"it says {last_line(found[0])!r}")

    def _read(self, done: Done) -> Said:
        """What the client says; one of the demo's answers has to be in it."""
        self._expect_quiet(done)
        try:
            said = self.client.read(done.stdout, done.stderr)
        except (ValueError, LookupError, TypeError) as error:
            raise Failed(
                f"its output is not what it was ({error}): {last_line(done.stdout)}"
            ) from error
        if not any(answer in said.text for answer in ANSWERED):
            raise Failed(f"it says {last_line(said.text or done.stderr)!r}")
        return said


_CHECKS: Mapping[str, Callable[[Trial], None]] = {
    "recorded": Trial.recorded,
    "grouped": Trial.grouped,
    "shown": Trial.shown,
    "tokens": Trial.tokens,
    "replayed": Trial.replayed,
    "cassette": Trial.cassette,
    "interrupted": Trial.interrupted,
}


def results(client: Client, folder: Path) -> dict[str, str]:
    """Run all checks of a client in a new folder, which is removed afterwards if all of them held."""
    folder.mkdir(parents=True)
    found: dict[str, str] = {}
    try:
        stage = Stage(client, folder)
    except Failed as failed:
        return {column: f"no: it cannot be set up: {failed}" for column in COLUMNS}
    try:
        for column, result in Trial(stage).results():
            found[column] = result
    finally:
        stage.close()
    if not any(result.startswith("no") for result in found.values()):
        shutil.rmtree(folder)
    return found
