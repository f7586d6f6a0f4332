"""A direction of `recorder tap`: what is recorded, and what is passed on, in that order."""

from __future__ import annotations

import os
from threading import Event

from recorder.commands.serving.tapping import _Pump

SOON_S = 5.0


def filled(sink: int) -> int:
    """Write into a pipe until it takes nothing more; return how much it took."""
    size_bytes = 0
    os.set_blocking(sink, False)
    try:
        while True:
            size_bytes += os.write(sink, bytes(4096))
    except BlockingIOError:
        os.set_blocking(sink, True)
        return size_bytes


def test_each_read_is_recorded_before_it_is_passed_on() -> None:
    (source, client), (program, sink) = os.pipe(), os.pipe()
    size_bytes = filled(sink)
    recorded, is_recorded = list[bytes](), Event()

    def record(data: bytes) -> None:
        recorded.append(data)
        is_recorded.set()

    pump = _Pump(source, sink, record)
    pump.start()
    os.write(client, b"one\n")
    try:
        assert is_recorded.wait(SOON_S), "the program does not read, and it is not recorded"
    finally:
        passed = os.read(program, size_bytes)
        os.close(client)
        while data := os.read(program, size_bytes):
            passed += data
        pump.join()
        os.close(program)
    assert passed == bytes(size_bytes) + b"one\n"
    assert recorded == [b"one\n", b""]
    assert pump.has_ended
