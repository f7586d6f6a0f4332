"""Where one client plays: a home and a directory, a database, the demo upstream, and the recorder's
commands.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from tools.real_clients import installing
from tools.real_clients.client import UPSTREAMS, Client
from tools.real_clients.relay import relaying

# the slowest client takes ten seconds on two busy cores, a minute where forty programs want them
COMMAND_S = 240.0
READY_S = 30.0  # for a server of ours to say where it listens
PACE = "0.1"  # of the demo: streams still come in pieces
# of the demo: as services do, it ends a body behind the last event, when some clients have left
LINGER_S = "0.003"
TAIL = 200  # characters of a failed command's output that are shown
KEYS = {
    name: "sk-none-0123456789" for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
}


class Failed(Exception):
    """A check that did not hold; its message is the reason in the table."""


class Waived(Exception):
    """A check that does not apply to this client; its message is the reason in the table."""


class Done(NamedTuple):
    words: Sequence[str]
    code: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """What went wrong: in what a request differs, why a cassette stays; else the last error, or
        the last line.
        """
        found = re.findall(r"It differs in .*|stays as it was: [^.]*", self.stderr)
        errors = [
            line for line in f"{self.stdout}\n{self.stderr}".splitlines() if "error" in line.lower()
        ]
        return last_line("\n".join(found or errors or [self.stderr]))

    def expect_success(self) -> Done:
        if self.code:
            raise Failed(f"exit code {self.code}: {self.complaint}")
        return self


def last_line(text: str) -> str:
    """The last line that says something, for a cell of a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:TAIL].replace("|", "/").replace("<", "&lt;") if lines else "no output"


class Stage:
    """One client's; `demo` is the address of the demo upstream, `upstream` that of the relay before
    it, if any.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.home, self.work, self.database = (
            folder / "home",
            folder / "work",
            folder / "recordings.db",
        )
        self._journal = folder / "commands.log"
        for each in (self.home, self.work):
            each.mkdir()
        self._upstream = contextlib.ExitStack()
        self.demo = self.upstream = ""
        self._raise_demo()
        for name, text in client.files.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(self.filled(text))
        words, typed = client.login
        if words:
            try:
                self.run(words, typed=typed).expect_success()
            except Failed:
                self.close()
                raise

    def filled(self, text: str) -> str:
        """A text of the client with our addresses in it."""
        return text.replace("{demo}", self.demo).replace("{home}", str(self.home))

    def _raise_demo(self) -> None:
        port = self.demo.rpartition(":")[2] or "0"
        words = [
            sys.executable,
            "-m",
            "tests.support.provider",
            "--pace",
            PACE,
            "--linger",
            LINGER_S,
            "--port",
            port,
        ]
        self.demo = self._upstream.enter_context(_serving(words, dict(os.environ), ""))
        self.upstream = (
            self._upstream.enter_context(relaying(self.demo))
            if self.client.is_broken
            else self.demo
        )

    def close(self) -> None:
        """Take the upstream away."""
        self._upstream.close()

    @contextlib.contextmanager
    def gone(self) -> Iterator[None]:
        """Take the upstream away for the block: nobody listens at its address."""
        self.close()
        try:
            yield
        finally:
            self._raise_demo()

    # -- commands

    def environment(self, *, has_keys: bool = True) -> dict[str, str]:
        """A fresh login's, with what this client needs."""
        own = {name: self.filled(value) for name, value in self.client.env.items()}
        keys = {
            name: value for name, value in {**KEYS, **own}.items() if has_keys or name not in KEYS
        }
        return {
            "HOME": str(self.home),
            "PATH": installing.path(self.client.packages),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **{name: value for name, value in keys.items() if value},
            "RECORDER": _recorder(),
        }

    def run(
        self,
        words: Sequence[str],
        *,
        has_keys: bool = True,
        typed: str = "",
        within_s: float = COMMAND_S,
    ) -> Done:
        """Run a command in the client's directory to its end, or to the end of our patience."""
        words = [self.filled(word) for word in words]
        process = _process(
            words, self.environment(has_keys=has_keys), self.work, stdin=subprocess.PIPE
        )
        return self._ended(process, words, within_s, typed)

    def recorder(self, verb: str, *words: str, **more: Any) -> Done:
        return self.run([_recorder(), verb, "--db", str(self.database), *words], **more)

    def record(self, *options: str, command: Sequence[str], **more: Any) -> Done:
        """`recorder run` with the demo as upstream, unless the client has an address of its own."""
        return self.recorder("run", *self._upstreams(), *options, "--", *command, **more)

    def _upstreams(self) -> list[str]:
        given = UPSTREAMS if self.client.is_told_upstreams else ()
        return [word for name in given for word in ("--upstream", f"{name}={self.upstream}")]

    def interrupt(self, *options: str, command: Sequence[str], when: str) -> Done:
        """`recorder run` in a terminal, and Ctrl-C as soon as the text `when` is in the log."""
        words = [
            _recorder(),
            "run",
            "--db",
            str(self.database),
            *self._upstreams(),
            *options,
            "--",
            *command,
        ]
        keyboard, terminal = os.openpty()
        try:
            # which makes it the terminal of a new session
            opens = f': <>{os.ttyname(terminal)}; exec "$@"'
            words = ["sh", "-c", opens, "sh", *(self.filled(word) for word in words)]
            process = _process(words, self.environment(), self.work, stdin=subprocess.DEVNULL)
            came = self._comes(when, process)
            os.write(keyboard, b"\x03")
            done = self._ended(process, words, COMMAND_S / 3)
        finally:
            os.close(keyboard)
            os.close(terminal)
        if not came:
            raise Failed(f"the stream did not begin: {done.complaint}")
        return done

    def _comes(self, text: str, process: subprocess.Popen[str]) -> bool:
        """Whether a text comes to the log before the process ends."""
        until = time.monotonic() + COMMAND_S
        while process.poll() is None and time.monotonic() < until:
            # as long as there is no database, or no schema in it
            with contextlib.suppress(sqlite3.OperationalError):
                if self.ask(
                    "SELECT 1 FROM event_payloads WHERE payload LIKE ? LIMIT 1", f"%{text}%"
                ):
                    return True
            time.sleep(0.5)
        return False

    def _ended(
        self, process: subprocess.Popen[str], words: Sequence[str], within_s: float, typed: str = ""
    ) -> Done:
        """What a process printed; it is killed with all that it started if it takes too long."""
        try:
            stdout, stderr = process.communicate(typed or None, timeout=within_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            stderr += f"\nstopped after {within_s:.0f} s"
        done = Done(words, process.returncode, stdout, stderr)
        with self._journal.open("a") as journal:
            journal.write(f"$ {shlex.join(words)}\n{stdout}\n{stderr}\nexit code {done.code}\n\n")
        return done

    def serve(self, database: Path) -> contextlib.AbstractContextManager[str]:
        """`recorder serve` on a free port; gives its address."""
        words = [_recorder(), "serve", "--db", str(database), "--port", "0"]
        bases = {**dict.fromkeys(UPSTREAMS, self.upstream), **self.client.served}
        words += [
            word
            for name, base in bases.items()
            for word in ("--upstream", f"{name}={self.filled(base)}")
        ]
        return _serving(words, self.environment(), "Listening on ")

    def pointed(self, url: str, command: Sequence[str]) -> Done:
        """Run a command as somebody does who has typed `eval "$(recorder env CLIENT)"`."""
        lines = [f'eval "$("$RECORDER" env {name} --url {url})"' for name in self.client.wiring]
        return self.run(["bash", "-c", "; ".join([*lines, '"$@"']), "bash", *command])

    # -- what was recorded

    def ask(self, sql: str, *values: str, database: Path | None = None) -> list[dict[str, Any]]:
        """The rows of a query, on a connection that only reads."""
        address = f"file:{database or self.database}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]

    def settle(self, database: Path | None = None) -> None:
        """Wait until what was recorded is in the views, as `recorder query` does."""
        self.run(
            [_recorder(), "query", "--db", str(database or self.database), "SELECT 1"]
        ).expect_success()


def _recorder() -> str:
    return str(Path(sys.executable).with_name("recorder"))


def _process(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, *, stdin: int
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, env=env, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip


@contextlib.contextmanager
def _serving(words: Sequence[str], env: Mapping[str, str], says: str) -> Iterator[str]:
    """A server of ours until the block ends; gives the address that stands behind `says` in its
    output.
    """
    with tempfile.TemporaryFile("a+") as log:
        process = subprocess.Popen(words, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield _address(log, says, process)
        finally:
            process.terminate()
            try:
                process.wait(READY_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(log: IO[str], says: str, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        log.seek(0)
        if found := re.search(rf"{says}(http://\S+)\n", log.read()):
            return found[1]
        time.sleep(0.1)
    log.seek(0)
    raise Failed(f"a server of ours did not start: {last_line(log.read())}")
