"""One request to a collector: repeated when that may help, and given up with a sentence that has no
secret in it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from recorder.exports.otlp.collector import (
    ANSWER_BYTES,
    ATTEMPTS,
    MESSAGE_CHARS,
    RETRY_AFTER_S,
    Accepted,
    Collector,
    Refused,
    endpoint_of,
)
from tests.support.otlp import Answer, Receiver, Reset, receiving

BODY = b'{"resourceSpans":[]}'
SECRET = "s3cr3t-of-nobody"
NOW_S = 1_790_000_000.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


class Sender:
    """A collector whose pauses take no time, and are kept."""

    def __init__(self, url: str, *, attempts: int | None = ATTEMPTS) -> None:
        self.pauses: list[float] = []
        self.sentences: list[str] = []
        self.taken = 0
        self.while_waiting: Callable[[], object] = bool
        self._url, self._attempts = url, attempts

    async def send(
        self, body: bytes = BODY, taken: Callable[[], Awaitable[None]] | None = None
    ) -> Accepted:
        async with httpx.AsyncClient(timeout=5) as client:
            collector = Collector(
                client,
                endpoint_of(self._url),
                {"authorization": f"Bearer {SECRET}"},
                attempts=self._attempts,
                sleep=self._sleep,
                chance=lambda: 1.0,
                now_s=lambda: NOW_S,
                say=self.sentences.append,
            )
            return await collector.send("traces", body, taken or self._taken)

    async def _taken(self) -> None:
        self.taken += 1

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.while_waiting()


async def test_a_request_is_json_in_gzip_with_the_headers_that_are_given(
    receiver: Receiver,
) -> None:
    sender = Sender(receiver.url)
    accepted = await sender.send()
    [request] = receiver.requests
    assert (request.path, gzip.decompress(request.body)) == ("/v1/traces", BODY)
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert accepted == Accepted(0, "", len(request.body))
    assert (sender.taken, sender.pauses, sender.sentences) == (1, [], [])


async def test_what_may_pass_is_repeated_as_the_same_bytes(receiver: Receiver) -> None:
    receiver.plan(Answer(429), Reset(), Answer(502), Answer(503), Answer(504))
    sender = Sender(receiver.url)
    await sender.send()
    assert len({request.body for request in receiver.requests}) == 1
    assert [request.is_accepted for request in receiver.requests] == [*[False] * 5, True]
    assert sender.pauses == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert sender.taken == 1
    assert [sentence.partition(" ")[2][:12] for sentence in sender.sentences] == [
        "takes nothin",
        "takes it aga",
    ]


PAUSES = {
    "7": 7.0,
    "0": 0.1,
    formatdate(NOW_S + 20, usegmt=True): 20.0,
    formatdate(NOW_S - 20, usegmt=True): 0.1,
    "999999": RETRY_AFTER_S,
    "soon": 1.0,
    "-1": 1.0,
}


async def test_a_collector_may_ask_for_a_pause_up_to_a_bound(receiver: Receiver) -> None:
    pauses = {}
    for given in PAUSES:
        receiver.plan(Answer(503, headers={"Retry-After": given}))
        sender = Sender(receiver.url)
        await sender.send()
        [pauses[given]] = sender.pauses
    assert pauses == PAUSES


async def test_a_collector_that_comes_back_gets_what_it_missed(receiver: Receiver) -> None:
    receiver.close()
    sender = Sender(receiver.url, attempts=None)

    def listen_after_a_while() -> None:
        if len(sender.pauses) == 10:
            receiver.listen()

    sender.while_waiting = listen_after_a_while
    await sender.send()
    assert len(receiver.accepted) == 1
    assert sender.pauses == [1.0, 2.0, 4.0, 8.0, 16.0, *[30.0] * 5]
    assert (
        sender.sentences[0]
        == f"{receiver.url} takes nothing now: it cannot be reached. It is tried again."
    )


async def test_a_collector_that_stays_away_is_given_up(receiver: Receiver) -> None:
    receiver.close()
    sender = Sender(receiver.url)
    with pytest.raises(
        Refused,
        match=r"^http://127\.0\.0\.1:\d+ takes nothing: it cannot be reached\. What it took",
    ):
        await sender.send()
    assert len(sender.pauses) == ATTEMPTS - 1
    assert sender.sentences[0].endswith(" It is tried 7 more times, for a minute or longer.")
    assert sender.taken == 0


async def refusal(sender: Sender, receiver: Receiver, answer: Answer) -> Refused:
    receiver.plan(answer)
    with pytest.raises(Refused) as refused:
        await sender.send()
    return refused.value


async def test_any_other_status_is_final(receiver: Receiver) -> None:
    body = json.dumps({"code": 3, "message": f"no\n such token: {SECRET}\x1b[2J"}).encode()
    for status in (400, 401, 403, 404, 413, 500, 501):
        sender = Sender(receiver.url)
        refused = await refusal(sender, receiver, Answer(status, body))
        assert f"refused it with status {status}: no such token: ….[2J"[:50] in str(
            refused
        ).replace("\\x1b", ".")
        assert SECRET not in str(refused)
        assert "\x1b" not in str(refused)
        assert (refused.status, sender.pauses, sender.taken) == (status, [], 0)


async def test_no_part_of_a_secret_is_shown_where_a_message_is_cut(receiver: Receiver) -> None:
    for shown in range(MESSAGE_CHARS - len(SECRET), MESSAGE_CHARS):
        body = b"-" * shown + SECRET.encode() + b"-" * MESSAGE_CHARS
        refused = await refusal(Sender(receiver.url), receiver, Answer(400, body))
        assert SECRET[:3] not in str(refused), shown


async def test_no_secret_of_the_url_is_shown(receiver: Receiver) -> None:
    receiver.plan(
        Answer(
            400, b"POST /v1/traces?key=a%2Fb-c%3Dd as a-user with a%40password, a@password a/b-c=d"
        )
    )
    url = receiver.url.replace("//", "//a-user:a%40password@") + "?key=a%2Fb-c%3Dd"
    with pytest.raises(Refused) as refused:
        await Sender(url).send()
    assert str(refused.value).count("…") == 5
    for secret in ("a-user", "password", "b-c"):
        assert secret not in str(refused.value)


async def test_a_choice_of_others_is_final(receiver: Receiver) -> None:
    for location in ("http://a:b/", "/elsewhere", ""):
        refused = await refusal(
            Sender(receiver.url), receiver, Answer(300, headers={"Location": location})
        )
        assert "another path (300)" in str(refused)


async def test_an_answer_may_be_anything(receiver: Receiver) -> None:
    sender = Sender(receiver.url)
    for body in (
        b"",
        b"plain words",
        b"<html><h1>x</h1></html>",
        b"\x08\x03\x12\x02no\xff",
        b"[]",
        b'{"message":7}',
    ):
        refused = await refusal(sender, receiver, Answer(400, body))
        assert ("plain words" in str(refused)) == (body == b"plain words")
        assert "<" not in str(refused)
        receiver.plan(Answer(200, body), Answer(200, b"x" * 3 * ANSWER_BYTES))
        assert [(await sender.send())[:2] for _ in range(2)] == [(0, "")] * 2


async def test_what_is_rejected_is_counted_and_not_sent_again(receiver: Receiver) -> None:
    for count in ("3", 3):
        answer = {"partialSuccess": {"rejectedSpans": count, "errorMessage": f"too old, {SECRET}"}}
        receiver.plan(Answer(200, json.dumps(answer).encode()))
        sender = Sender(receiver.url)
        assert (await sender.send())[:2] == (3, "too old, …")
        assert sender.taken == 1
    assert len(receiver.requests) == 2


async def test_no_redirect_is_followed(receiver: Receiver) -> None:
    with receiving() as elsewhere:
        receiver.plan(Answer(307, headers={"Location": f"{elsewhere.url}/v1/traces?key={SECRET}"}))
        with pytest.raises(Refused, match=r"sends on to 127\.0\.0\.1 \(307\)") as refused:
            await Sender(receiver.url).send()
        assert elsewhere.requests == []
    assert SECRET not in str(refused.value)


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    receiver: Receiver, certificate: Path
) -> None:
    receiver.close()
    receiver.listen(certificate)
    sender = Sender(receiver.url.replace("http:", "https:"))
    with pytest.raises(Refused, match="certificate of https://127"):
        await sender.send()
    assert (sender.pauses, receiver.requests) == ([], [])


async def test_an_interruption_waits_for_the_answer_to_what_is_under_way(
    receiver: Receiver,
) -> None:
    arrived, may_answer, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def answer() -> None:
        loop.call_soon_threadsafe(arrived.set)
        may_answer.wait(30)

    receiver.plan(Answer(before=answer))
    sender = Sender(receiver.url)
    sending = asyncio.ensure_future(sender.send())
    await arrived.wait()
    sending.cancel()
    loop.call_soon(may_answer.set)
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert sender.taken == 1
