"""A network namespace of one's own: nothing but loopback, so that no request can go past the
recorder unseen.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

_UNSHARE = ("unshare", "--map-root-user", "--net")
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1  # netdevice(7)
_MARK = "RECORDER_IN_NAMESPACE"


def is_inside() -> bool:
    return _MARK in os.environ


def can_be_made() -> bool:
    """Whether this system lets us have one."""
    return (
        shutil.which("unshare") is not None
        and not subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode
    )


def enter(words: Sequence[str], program: str = "tools.real_clients") -> int:
    """Run this program again in one, and return its exit code."""
    command = [*_UNSHARE, sys.executable, "-m", program, *words]
    return subprocess.run(command, env={**os.environ, _MARK: "1"}).returncode


def raise_loopback() -> None:
    """Switch the loopback interface on: a new namespace has it switched off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
