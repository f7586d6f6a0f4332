"""The network of a company: only its proxy leads out, it wants a login, and TLS is of its own authority."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.demo.server import start
from tests.acceptance.test_secrets import forms
from tests.support.company import KEY
from tests.support.forward_proxy import Authority, ForwardProxy
from tests.support.server import environment, run
from tests.support.sockets import listening
from tools.real_clients import namespace

NAME = "api.corp.test"
USER, PASSWORD = "corp-user", "p-of-the-proxy-7c1"


class Company(NamedTuple):
    """What the program in the namespace got, what the proxy saw, and the folder with all files."""

    got: Mapping[str, Any]
    asked: list[bytes]
    requests: list[Any]  # that came to the upstream
    folder: Path


async def in_a_company(folder: Path) -> Company:
    """Run the program in a namespace; the proxy that it can reach is in this process, outside."""
    authority, door = Authority(folder), folder / "door"
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(str(door))
        outside.listen()
        outside.setblocking(False)
        words = ["unshare", "--map-root-user", "--net", sys.executable, "-m", "tests.support.company"]
        settings = {**environment(folder), "COMPANY_LOGIN": f"{USER}:{PASSWORD}", "PYTHONPATH": os.getcwd()}
        inside = await asyncio.create_subprocess_exec(
            *words, str(door), str(folder), NAME, env=settings, stdout=asyncio.subprocess.PIPE
        )
        accepted, _ = await asyncio.get_running_loop().sock_accept(outside)
    with accepted:
        accepted.setblocking(True)
        [descriptor] = socket.recv_fds(accepted, 1, 1)[1]
    async with await start(pace=0) as demo:

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """What stands before the demo, which has no TLS."""
            there = await asyncio.open_connection("127.0.0.1", demo.port)

            async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    to.write(data)

            await asyncio.wait(
                [asyncio.ensure_future(copy(reader, there[1])), asyncio.ensure_future(copy(there[0], writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            there[1].close()

        async with listening(pass_on, authority.server(NAME)) as base:
            names = {NAME: int(base.rpartition(":")[2])}
            listener = socket.socket(fileno=descriptor)
            async with ForwardProxy(names, login=f"{USER}:{PASSWORD}", listener=listener) as proxy:
                out, _ = await inside.communicate()
                return Company(json.loads(out), proxy.asked, list(demo.requests), folder)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Company:
    if not namespace.can_be_made():
        pytest.skip("This system lets nobody make a network namespace.")
    return asyncio.run(in_a_company(tmp_path_factory.mktemp("company")))


def exchange(company: Company, session: str) -> Any:
    """The only one of a session, as `recorder show` has it."""
    db = company.folder / f"{session}.db"
    assert run(db, "db", "recover").code == 0  # what a busy machine had no time for
    [found] = json.loads(run(db, "show", session, "--json").out)["exchanges"]
    return found


def test_serve_works_by_the_proxy_of_a_company(company: Company) -> None:
    got = company.got["proxied"]
    assert (got["status"], "response.completed" in got["body"]) == (200, True), got
    assert [dict(each.headers).get("authorization") for each in company.requests] == [f"Bearer {KEY}"]
    assert exchange(company, "proxied")["status"] == "completed"


def test_there_is_no_other_way_out_of_it(company: Company) -> None:
    """Whatever variables say: the control of the test above."""
    got = company.got["direct"]
    assert (got["status"], "its name cannot be resolved" in got["body"]) == (502, True), got


def test_a_proxy_without_its_login_is_said_in_the_answer_and_in_the_log(company: Company) -> None:
    got = company.got["refused"]
    sentence = "wants a user and a password (407)"
    assert (got["status"], sentence in got["body"], sentence in got["said"]) == (502, True, True), got
    recorded = exchange(company, "refused")
    assert (recorded["status"], sentence in recorded["error"]) == ("upstream_unreachable", True)


def test_neither_key_nor_login_is_in_any_file(company: Company) -> None:
    login = b"".join(each.split(b"Basic ")[1].split(b"\r\n")[0] for each in company.asked if b"Basic " in each)
    assert login, "it was sent"
    read = 0
    for path in company.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes().lower()
            read += len(data)
            found = [secret for secret in (KEY, PASSWORD) if any(form in data for form in forms(secret))]
            assert (path.name, found) == (path.name, [])
    assert read > 100_000
    assert "by the proxy 127.0.0.1:" in company.got["proxied"]["said"]
