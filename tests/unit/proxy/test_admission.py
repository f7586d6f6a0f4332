"""Who is let in, judged by Host alone; the whole matrix runs over sockets in `test_refusals.py`."""

from __future__ import annotations

from recorder.proxy.admission import is_local

OURS = [
    "localhost",
    "LOCALHOST:1",
    "a.localhost:80",
    "127.0.0.1:8787",
    "127.9.9.9",
    "[::1]:8787",
    "[::1]",
    "box.lan:99",
]
OTHERS = [
    *(
        "",
        "evil.test",
        "localhost.evil.test",
        "evil-localhost",
        "127.0.0.1.evil.test",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
    ),
    *(
        "localhost:x",
        "localhost:999999",
        "::1",
        "user@localhost",
        "localhost/x",
        "2130706433",
        "0x7f.1",
    ),
    *("box.lan.evil", "[::ffff:10.0.0.1]", "localhost.", "127.1", "local host"),
]


def test_names_that_only_we_can_have_are_ours_and_no_others() -> None:
    assert [host for host in (*OURS, *OTHERS) if is_local(host.encode(), {"box.lan"})] == OURS
