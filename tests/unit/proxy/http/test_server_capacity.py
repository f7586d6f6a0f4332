"""How many clients there is room for below a limit of open files."""

from __future__ import annotations

import resource

from recorder.proxy.http.server_capacity import LEAST, capacity


def test_there_is_room_for_what_is_promised() -> None:
    for limit in (64, 160, 256, 1024, 4096, 20_000, 2**20, resource.RLIM_INFINITY):
        allowed = capacity(limit)
        open_files = limit if limit != resource.RLIM_INFINITY else 2**16
        assert 0 < allowed.served < allowed.accepted
        assert 2 * allowed.served + (allowed.accepted - allowed.served) + LEAST // 2 < open_files
