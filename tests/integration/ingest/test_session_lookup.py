"""Clients that have no name for their session: what they repeat of their conversation tells which
one it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.ingest.ingester import Ingester
from recorder.ingest.session_lookup import LOOK_BACK_NS, PROBES_NS
from recorder.journal.writer import Journal
from recorder.model.attribution import Attribution
from recorder.store.location import database_url
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from recorder.wire.grouping.history import LOOK_BACK_ANSWERS
from tests.integration.ingest.test_ingester import Exchange, never
from tests.support.empty_log import empty
from tests.support.html_file import require_exact, shown
from tests.support.server import run as run_command
from tests.support.superuser import asked

Told = list[dict[str, Any]]


# -- what is in the journal


class Recorded:
    """A database and the journal of a recorder; each request is told by an ingester that knows
    nothing yet.
    """

    def __init__(self, url: URL, root: Path) -> None:
        self.url, self.journal = url, Journal(root, "recorder-1")
        self._directory = root / "recorder-1"
        self._store = Store(url)
        self.now_ns = time.time_ns()

    def asks(
        self,
        told: Told,
        answer: str | None,
        *,
        answers: Told | None = None,
        ends: bool = True,
        **head: Any,
    ) -> Exchange:
        """A request, and the beginning of its answer, if it gets any, as text or in deltas; not
        told yet.
        """
        answers = [{"content": answer}] if answer is not None else answers
        self.now_ns += 10**9
        given: dict[str, Any] = {"model": "m", **head.pop("given", {}), "messages": told}
        fields: dict[str, Any] = {
            "target": "/v1/chat/completions",
            "started_ns": self.now_ns,
            **head,
        }
        exchange = Exchange(self.journal, json.dumps(given).encode(), **fields)
        if answers is not None:
            choices: Told = [
                *({"delta": each} for each in answers),
                {"delta": {}, "finish_reason": "stop"},
            ]
            for choice in choices:
                exchange.chunk(
                    b"data: " + json.dumps({"choices": [{"index": 0, **choice}]}).encode() + b"\n\n"
                )
            exchange.chunk(b"data: [DONE]\n\n")
        return exchange.end() if ends else exchange

    def sends(self, target: str, body: Any, answer: Any) -> Exchange:
        """A request, and its answer as JSON; not ended yet."""
        self.now_ns += 10**9
        json_type = [("content-type", "application/json")]
        exchange = Exchange(
            self.journal,
            json.dumps(body).encode(),
            json_type,
            target=target,
            started_ns=self.now_ns,
        )
        return exchange.chunk(json.dumps(answer).encode())

    def reads(self, target: str, data: bytes) -> Exchange:
        """A request for a stream, and the beginning of that; not ended yet."""
        self.now_ns += 10**9
        return Exchange(
            self.journal, b"", target=target, method="GET", started_ns=self.now_ns
        ).chunk(data)

    def session_of(self, exchange: Exchange) -> tuple[str, str]:
        """The session of an exchange, and the rule that found it."""
        Ingester(self._store, self._directory, never).drain()
        [found] = asked(
            self.url,
            "SELECT session_id, source FROM exchanges JOIN sessions USING (session_id) WHERE exchange_id = ?",
            exchange.id,
        )
        return found

    def close(self) -> None:
        self.journal.close()
        self._store.close()


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    with closing(Recorded(database_url(empty(tmp_path / "log.db")), tmp_path / "journal")) as made:
        yield made


@pytest.fixture
def on_each_engine(database: URL, tmp_path: Path) -> Iterator[Recorded]:
    with closing(Recorded(database, tmp_path / "journal")) as made:
        yield made


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


HI: Told = [{"role": "system", "content": "Be brief."}, user("hi")]
RETRY = [("x-stainless-retry-count", "1")]


def test_a_request_goes_on_with_the_exchange_whose_answer_it_repeats(
    on_each_engine: Recorded,
) -> None:
    recorded = on_each_engine
    first = recorded.session_of(recorded.asks(HI, "Hello!"))
    told = [*HI, model("Hello!"), user("more")]
    assert first[1] == "history"
    assert recorded.session_of(recorded.asks(told, "More.")) == first
    assert (
        recorded.session_of(recorded.asks([*told, model("More.\n"), user("bye")], "Bye.")) == first
    )
    # a branch of it
    assert (
        recorded.session_of(recorded.asks([*HI, model("Hello!"), user("less")], "Less.")) == first
    )


def test_equal_first_requests_are_sessions_of_their_own(recorded: Recorded) -> None:
    one, other = (
        recorded.session_of(recorded.asks(HI, answer)) for answer in ("Hello!", "Good day.")
    )
    assert one != other
    for session, answer in ((one, "Hello!"), (other, "Good day.")):
        assert (
            recorded.session_of(recorded.asks([*HI, model(answer), user("more")], "More."))
            == session
        )


def test_conversations_that_began_alike_stay_two(on_each_engine: Recorded) -> None:
    """All of it in one batch."""
    recorded = on_each_engine
    begun = [recorded.asks(HI, "Hello!") for _ in range(2)]
    followed = [
        recorded.asks([*HI, model("Hello!"), user(each)], each.upper()) for each in ("a", "b")
    ]
    last = [
        recorded.asks([*HI, model("Hello!"), user(each), model(each.upper()), user("c")], "C")
        for each in "ab"
    ]
    sessions = [recorded.session_of(exchange) for exchange in (*begun, *followed, *last)]
    assert sorted(sessions[:2]) == sorted(sessions[2:4])
    assert sessions[2:4] == sessions[4:]
    assert len(set(sessions)) == 2


def test_an_answer_put_otherwise_leads_to_the_only_request_that_got_one(recorded: Recorded) -> None:
    """As smolagents repeats a call as text. Two that asked the same may both be meant."""
    told = [*HI, model("Calling tools: f()"), user("Observation: 1")]
    first = recorded.session_of(recorded.asks(HI, None, answers=[call_of("call_0123456789")]))
    assert recorded.session_of(recorded.asks(told, "One.")) == first
    assert recorded.session_of(recorded.asks([*HI, user("more")], "More.")) != first
    begun = [recorded.session_of(recorded.asks([*HI, user("2")], "Hello!")) for _ in range(2)]
    assert (
        recorded.session_of(recorded.asks([*HI, user("2"), model("Hi"), user("more")], "More."))
        not in begun
    )


def test_of_equal_conversations_the_one_with_the_same_model_tools_and_system_prompt_goes_on(
    recorded: Recorded,
) -> None:
    """Experts that are asked one question, and say the same."""
    abouts: list[tuple[Told, dict[str, Any]]] = [
        ([{"role": "system", "content": "You are Ann."}], {}),
        ([{"role": "system", "content": "You are Bob."}], {}),
        ([{"role": "system", "content": "You are Ann."}], {"model": "n"}),
        ([{"role": "system", "content": "You are Ann."}], {"tools": [{"type": "function"}]}),
    ]
    begun = [
        recorded.session_of(recorded.asks([*told, user("hi")], "Hello!", given=about))
        for told, about in abouts
    ]
    assert len(set(begun)) == len(abouts)
    for (told, about), session in zip(abouts, begun, strict=True):
        more = [*told, user("hi"), model("Hello!"), user("more")]
        assert recorded.session_of(recorded.asks(more, "More.", given=about)) == session


Ask = Callable[[Told, int], Told]
"""What an app makes of a conversation that ends with a question, and of the number of that
question.
"""


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def last(told: Told, content: Any) -> Told:
    return [*told[:-1], {"role": "user", "content": content}]


APPS: dict[str, Ask] = {
    "plain": lambda told, _: told,
    "parts": lambda told, _: [
        {**each, "content": [{"type": "text", "text": each["content"]}]} for each in told
    ],
    "trailing newline": lambda told, _: [
        {**each, "content": each["content"] + "\n"} for each in told
    ],
    "name": lambda told, _: [{**each, "name": "ann"} for each in told],
    "window": lambda told, _: told[-3:],
    "summary": lambda told, number: [user(f"Summary {number}"), *told[-3:]],
    "time in the system prompt": lambda told, number: [system(f"It is 12:0{number}."), *told],
    "system message at the end": lambda told, number: [*told, system(f"It is 12:0{number}.")],
    "message behind": lambda told, _: [*told, user("Remember: be brief.")],
    "reminder behind": lambda told, _: last(told, f"{told[-1]['content']}\n\nRemember: be brief."),
    "time before": lambda told, number: [*told[:-1], user(f"<time>12:0{number}</time>"), told[-1]],
    "time at the beginning": lambda told, number: last(
        told, f"<time>12:0{number}</time>\n\n{told[-1]['content']}"
    ),
    "retrieved context": lambda told, number: last(
        told, f"Use this: document {number}.\n{told[-1]['content']}"
    ),
    "answers put otherwise": lambda told, _: [
        model(f"({each['content']})") if each["role"] == "assistant" else each for each in told
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("app", APPS)
def test_a_conversation_is_one_session_whatever_an_app_puts_around_it(
    recorded: Recorded, app: str
) -> None:
    """Of two conversations at once, turn by turn."""
    told: dict[str, Told] = {"Bern": [], "Oslo": []}
    sessions: dict[str, set[tuple[str, str]]] = {city: set() for city in told}
    for number in range(4):
        for city, conversation in told.items():
            conversation.append(user(f"Question {number} about {city}"))
            answer = f"This is answer {number} about {city}."
            exchange = recorded.asks(APPS[app](conversation, number), answer)
            sessions[city].add(recorded.session_of(exchange))
            conversation.append(model(answer))
    assert [len(found) for found in sessions.values()] == [1, 1]
    assert sessions["Bern"] != sessions["Oslo"]


@pytest.mark.parametrize(
    "given", [lambda n: {"model": f"m{n}"}, lambda n: {"tools": [{"n": n}]}], ids=["model", "tools"]
)
def test_a_conversation_goes_on_with_another_model_and_other_tools(
    recorded: Recorded, given: Callable[[int], dict[str, Any]]
) -> None:
    told = [*HI, model("Hello!"), user("more")]
    first = recorded.session_of(recorded.asks(HI, "Hello!", given=given(1)))
    assert recorded.session_of(recorded.asks(told, "More.", given=given(2))) == first
    assert (
        recorded.session_of(
            recorded.asks([*told, model("More."), user("bye")], "Bye.", given=given(3))
        )
        == first
    )


def test_a_greeting_alone_joins_no_stranger(recorded: Recorded) -> None:
    greeting = "Hello! How can I assist you today?"
    first = recorded.session_of(
        recorded.asks(HI, greeting, given={"model": "m1", "tools": [{"n": 1}]})
    )
    told = [user("Good morning"), model(greeting), user("Write a poem")]
    other = {"model": "m2", "tools": [{"n": 2}], "instructions": "Be brief."}
    assert recorded.session_of(recorded.asks(told, "Roses.", given=other)) != first


def test_a_helper_that_quotes_a_conversation_is_of_its_session(recorded: Recorded) -> None:
    """As Open WebUI asks for a title; of two conversations, and with the last messages only."""
    told: Told = [user("hi"), model("Hello!\nHow are you?")]
    first = recorded.session_of(recorded.asks(told[:1], "Hello!\nHow are you?"))
    other = recorded.session_of(recorded.asks([user("hi")], "Hello, hello. And now?"))
    assert (
        recorded.session_of(recorded.asks([*told, user("Fine.\n\nThanks")], "That is good."))
        == first
    )
    quoted = "USER: hi\nASSISTANT: Hello!\nHow are you?"
    more = "USER: Fine.\n\nThanks\nASSISTANT: That is good."
    for history, session in {
        quoted: first,
        more: first,
        f"{quoted}\n{more}": first,
        "USER: hi\nASSISTANT: Hello, hello. And now?": other,
    }.items():
        task = f"### Task:\nGenerate a title.\n### Chat History:\n<chat_history>\n{history}\n</chat_history>"
        assert recorded.session_of(recorded.asks([user(task)], '{"title": "Hi"}')) == session


def test_requests_that_only_have_the_same_examples_are_sessions_of_their_own(
    recorded: Recorded,
) -> None:
    """Also those whose answer is that of an example."""
    examples = [
        user("I like it."),
        model('{"sentiment": "positive"}'),
        user("Bad."),
        model('{"sentiment": "negative"}'),
    ]
    exchanges = [
        recorded.asks([*examples, user(f"Text {n}")], '{"sentiment": "negative"}') for n in range(3)
    ]
    assert len({recorded.session_of(exchange) for exchange in exchanges}) == 3


def test_a_client_may_be_quicker_than_the_end_of_a_stream(recorded: Recorded) -> None:
    first = recorded.asks(HI, "Hello!", ends=False)
    second = recorded.asks([*HI, model("Hello!"), user("more")], "More.")
    assert recorded.session_of(first) == recorded.session_of(second)
    first.end()


def test_what_is_kept_of_an_answer_that_broke_off_is_enough(recorded: Recorded) -> None:
    first = recorded.asks(HI, None, ends=False)
    first.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"Hello, you there"}}]}\n\n').end(
        "client_disconnect"
    )
    session = recorded.session_of(first)
    assert (
        recorded.session_of(recorded.asks([*HI, model("Hello, you"), user("stop")], "Yes."))
        == session
    )


def test_a_retry_is_of_the_session_that_got_no_answer_if_it_says_so(recorded: Recorded) -> None:
    failed = recorded.session_of(recorded.asks(HI, None))
    assert recorded.session_of(recorded.asks(HI, "Hello!", headers=RETRY)) == failed
    # who does not say so asks anew
    assert recorded.session_of(recorded.asks(HI, "Hello!")) != failed
    # it has its answer
    assert recorded.session_of(recorded.asks(HI, "Hello!", headers=RETRY)) != failed


def call_of(id: str) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": "{}"}
    return {"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}


def test_the_result_of_a_call_leads_to_it_whatever_else_is_said(on_each_engine: Recorded) -> None:
    recorded = on_each_engine
    first = recorded.session_of(recorded.asks(HI, None, answers=[call_of("call_0123456789")]))
    result = {"role": "tool", "tool_call_id": "call_0123456789", "content": "sunny"}
    other: Told = [
        {"role": "system", "content": "It is 12:01."},
        user("hi"),
        model("Let me see."),
        result,
    ]
    assert recorded.session_of(recorded.asks(other, "Sunny.", given={"model": "n"})) == first
    assert recorded.session_of(recorded.asks([*HI, user("hi")], "Hello!")) != first


BERN = {"city": "Bern"}
TEXT_OF_BERN = json.dumps(BERN)
Turns = Callable[[str], list[tuple[dict[str, Any], dict[str, Any]]]]
"""The requests of a run, with their answers, by the letter with which its ids begin: three, with a
call of a tool.
"""


def chat_turns(run: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    call = {
        "id": f"call_{run}aaaaaaa",
        "type": "function",
        "function": {"name": "f", "arguments": TEXT_OF_BERN},
    }
    said: Told = [user("Weather?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    said += [
        {"role": "tool", "tool_call_id": call["id"], "content": "18 C"},
        model("18."),
        user("thanks"),
    ]
    answers = [said[1], said[3], model("Bye.")]
    bodies = [{"model": "m", "messages": said[:count]} for count in (1, 3, 5)]
    return [
        (body, {"choices": [{"index": 0, "message": each}]})
        for body, each in zip(bodies, answers, strict=True)
    ]


def messages_turns(run: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    use = {"type": "tool_use", "id": f"toolu_{run}aaaaaaa", "name": "f", "input": BERN}
    returned = {"type": "tool_result", "tool_use_id": use["id"], "content": "18 C"}
    said: Told = [
        user("Weather?"),
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [returned]},
    ]
    said += [model("18."), user("thanks")]
    answers = [[use], [{"type": "text", "text": "18."}], [{"type": "text", "text": "Bye."}]]
    bodies = [{"model": "m", "max_tokens": 9, "messages": said[:count]} for count in (1, 3, 5)]
    about = {"type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    return [(body, {**about, "content": each}) for body, each in zip(bodies, answers, strict=True)]


def contents_turns(run: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    call = {"functionCall": {"id": f"{run}aaaaaaa", "name": "f", "args": BERN}}
    returned = {
        "functionResponse": {"id": f"{run}aaaaaaa", "name": "f", "response": {"output": "18 C"}}
    }
    said: Told = [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": [call]},
    ]
    said += [{"role": "user", "parts": [returned]}, {"role": "model", "parts": [{"text": "18."}]}]
    said += [{"role": "user", "parts": [{"text": "thanks"}]}]
    answers = [said[1], said[3], {"role": "model", "parts": [{"text": "Bye."}]}]
    bodies = [{"contents": said[:count]} for count in (1, 3, 5)]
    return [
        (body, {"candidates": [{"index": 0, "content": each, "finishReason": "STOP"}]})
        for body, each in zip(bodies, answers, strict=True)
    ]


def responses_turns(run: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Their results name the call, their texts the message."""
    call = {
        "type": "function_call",
        "call_id": f"call_{run}aaaaaaa",
        "name": "f",
        "arguments": TEXT_OF_BERN,
    }
    text: dict[str, Any] = {"type": "message", "id": f"msg_{run}aaaaaaa", "role": "assistant"}
    text |= {
        "status": "completed",
        "content": [{"type": "output_text", "text": "18.", "annotations": []}],
    }
    said: Told = [
        user("Weather?"),
        call,
        {"type": "function_call_output", "call_id": call["call_id"], "output": "18"},
    ]
    said += [text, user("thanks")]
    answers = [
        {**call, "id": f"fc_{run}aaaaaaa", "status": "completed"},
        text,
        {**text, "id": f"msg_{run}bbbbbbb"},
    ]
    bodies = [{"model": "m", "input": said[:count]} for count in (1, 3, 5)]
    about = {"id": f"resp_{run}", "object": "response", "status": "completed", "model": "m"}
    return [(body, {**about, "output": [each]}) for body, each in zip(bodies, answers, strict=True)]


PARALLEL: dict[str, Turns] = {
    "/v1/chat/completions": chat_turns,
    "/v1/messages": messages_turns,
    "/v1beta/models/m:generateContent": contents_turns,
    "/v1/responses": responses_turns,
}
ORDERS = ["ABAB", "ABBA", "ABCBAC"]


@pytest.mark.long
@pytest.mark.parametrize("target", PARALLEL)
def test_parallel_runs_of_one_prompt_stay_apart_by_their_ids(
    recorded: Recorded, target: str
) -> None:
    """Each in one batch, whose streams may end after the next request has come; all of them in one
    log.
    """
    sessions: list[set[tuple[str, str]]] = []
    for number, (order, ends) in enumerate(product(ORDERS, (True, False))):
        runs = {run: iter(PARALLEL[target](f"{number}{run}")) for run in order}
        exchanges: dict[str, list[Exchange]] = {run: [] for run in order}
        for run in (*order, *sorted(runs)):
            body, answer = next(runs[run])
            exchange = recorded.sends(target, body, answer)
            exchanges[run].append(exchange.end() if ends else exchange)
        sessions += [{recorded.session_of(each) for each in sent} for sent in exchanges.values()]
    assert [len(found) for found in sessions] == [1] * len(sessions)
    assert len(set.union(*sessions)) == len(sessions) == 2 * (2 + 2 + 3)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("f", {"n": 1.0}),
    ("g", {"é": "ü"}),
    ("f", {"n": 2}),
    ("f", {"n": 2}),
]


def said_by(model: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": model, "parts": list(parts)}


def parallel_parts(kind: str, turn: int, id: str) -> Told:
    """The calls of a turn, or their results, with ids that begin so, if at all."""
    parts: Told = []
    for number, (name, args) in enumerate(CALLS):
        said = (
            {"args": args}
            if kind == "functionCall"
            else {"response": {"result": f"{turn}-{number}"}}
        )
        parts.append(
            {kind: {"name": name, **said, **({"id": f"{id}-{turn}-{number}"} if id else {})}}
        )
    return parts


WAYS = list(product(("given", ""), ("as given", "own", ""), (False, True)))
"""Whether the server gives ids, which ids the client sends, and whether each result is a content of
its own.
"""


def test_results_of_gemini_are_joined_whoever_has_ids(recorded: Recorded) -> None:
    """Two turns of parallel calls, whose second has the same calls as the first."""
    joined = {}
    for number, (server, client, apart) in enumerate(WAYS):
        given = server and f"{number}{server}"
        sent = given if client == "as given" else client and f"{number}{client}"
        end = two_turns(recorded, f"go {number}", given, sent, apart)
        sql = "SELECT output FROM tool_calls WHERE session_id = ? ORDER BY exchange_id, item"
        outputs = asked(recorded.url, sql, recorded.session_of(end)[0])
        joined[server, client, apart] = [json.loads(output)["result"] for (output,) in outputs]
    all_results = [f"{turn}-{n}" for turn in (0, 1) for n in range(4)]
    assert {way: results for way, results in joined.items() if results != all_results} == {}
    assert len(joined) == len(WAYS)


def two_turns(recorded: Recorded, question: str, given: str, sent: str, apart: bool) -> Exchange:
    """A conversation with two turns of calls, whose ids begin with what the server gives and the
    client sends.
    """

    def asks(parts: Told) -> Exchange:
        answer = {"candidates": [{"content": said_by("model", *parts), "finishReason": "STOP"}]}
        return recorded.sends("/v1beta/models/m:generateContent", {"contents": told}, answer).end()

    told: Told = [said_by("user", {"text": question})]
    for turn in (0, 1):
        asks(parallel_parts("functionCall", turn, given))
        told.append(said_by("model", *parallel_parts("functionCall", turn, sent)))
        results = parallel_parts("functionResponse", turn, sent)
        told += (
            [said_by("user", each) for each in results] if apart else [said_by("user", *results)]
        )
    return asks([{"text": "Done."}])


def test_an_id_that_two_sessions_have_leads_to_neither(recorded: Recorded) -> None:
    """Of a server that gives the same ids over and over, with a client that changes what it said."""
    id = "chatcmpl-tool-0123456789"
    begun = [recorded.session_of(recorded.asks(HI, None, answers=[call_of(id)])) for _ in range(2)]
    result = {"role": "tool", "tool_call_id": id, "content": "sunny"}
    assert recorded.session_of(recorded.asks([user("hi!"), result], "Sunny.")) not in begun


@pytest.mark.parametrize("id", ["functions.get_weather:0", "call_weather_1", "get_weather"])
def test_an_id_that_each_conversation_has_leads_nowhere(recorded: Recorded, id: str) -> None:
    """Another user asks the same server, and the beginning of that conversation is not recorded."""
    first = recorded.session_of(recorded.asks(HI, None, answers=[call_of(id)]))
    result = {"role": "tool", "tool_call_id": id, "content": "rain"}
    assert recorded.session_of(recorded.asks([user("I am Bob"), result], "Rain.")) != first


def test_probes_are_one_session_a_day(recorded: Recorded) -> None:
    def probe() -> tuple[str, str]:
        return recorded.session_of(recorded.asks([], None, method="HEAD", target="/v1/messages"))

    first = probe()
    assert first[1] == "probe"
    assert probe() == first
    recorded.now_ns += PROBES_NS
    assert probe() != first
    assert probe() != first


def test_a_session_with_a_name_is_none_of_a_history(recorded: Recorded) -> None:
    named = recorded.session_of(recorded.asks(HI, "Hello!", session="mine", session_source="path"))
    assert named[1] == "path"
    assert asked(recorded.url, "SELECT * FROM p_history_v1") == []
    assert (
        recorded.session_of(recorded.asks([*HI, model("Hello!"), user("more")], "More.")) != named
    )


def test_it_looks_back_a_week_and_some_answers(recorded: Recorded) -> None:
    first = recorded.session_of(recorded.asks(HI, "Hello!"))
    begun = [*HI, model("Hello!")]
    some = [
        each
        for number in range(LOOK_BACK_ANSWERS - 1)
        for each in (user(f"q{number}"), model(f"a{number}"))
    ]
    assert recorded.session_of(recorded.asks([*begun, *some, user("more")], "x")) == first
    assert (
        recorded.session_of(
            recorded.asks([*begun, *some, user("q"), model("a"), user("more")], "x")
        )
        != first
    )
    recorded.now_ns += LOOK_BACK_NS
    assert recorded.session_of(recorded.asks([*begun, user("late")], "x")) != first


Given = Callable[[int], str | None]
"""The id of the call of a number, in all turns; None for none."""


def chat_called(given: Given, first: int) -> tuple[Any, Told]:
    """An answer with parallel calls, and what repeats it, with their results."""
    calls: Told = []
    for number, (name, args) in enumerate(CALLS, first):
        about = {"type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        calls.append({**about, "id": given(number)})
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    results = [
        {"role": "tool", "tool_call_id": each["id"], "content": str(n)}
        for n, each in enumerate(calls, first)
    ]
    return {"choices": [{"index": 0, "message": answer, "finish_reason": "tool_calls"}]}, [
        answer,
        *results,
    ]


def messages_called(given: Given, first: int) -> tuple[Any, Told]:
    uses: Told = []
    results: Told = []
    for number, (name, args) in enumerate(CALLS, first):
        uses.append({"type": "tool_use", "id": given(number), "name": name, "input": args})
        results.append(
            {"type": "tool_result", "tool_use_id": given(number), "content": str(number)}
        )
    told: Told = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    return {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": uses,
        "stop_reason": "tool_use",
    }, told


def responses_called(given: Given, first: int) -> tuple[Any, Told]:
    calls: Told = []
    for number, (name, args) in enumerate(CALLS, first):
        calls.append(
            {
                "type": "function_call",
                "call_id": given(number),
                "name": name,
                "arguments": json.dumps(args),
            }
        )
    told: Told = [*calls]
    for number, call in enumerate(calls, first):
        told.append(
            {"type": "function_call_output", "call_id": call["call_id"], "output": str(number)}
        )
    return {
        "id": f"resp_{first}",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": calls,
    }, told


Called = Callable[[Given, int], tuple[Any, Told]]
CALLED: dict[str, tuple[str, Called]] = {
    "/v1/chat/completions": ("messages", chat_called),
    "/v1/messages": ("messages", messages_called),
    "/v1/responses": ("input", responses_called),
}
OUTPUTS = "SELECT output FROM tool_calls WHERE session_id = ? ORDER BY exchange_id, item"


def outputs_of(
    recorded: Recorded, target: str, server: Given, client: Given, change: Callable[[Any], Any]
) -> list[str | None]:
    """The results of two turns with parallel calls, of which the client changes what it repeats."""
    field, called = CALLED[target]
    told: Told = [user("go")]
    about = {"model": "m", "metadata": {"session_id": "s"}}
    for first in (0, len(CALLS)):
        answer, _ = called(server, first)
        recorded.sends(target, {**about, field: told}, answer).end()
        told = [*told, *change(called(client, first)[1])]
    end = recorded.sends(target, {**about, field: told}, called(server, 99)[0]).end()
    session_id, _ = recorded.session_of(end)
    return [output for (output,) in asked(recorded.url, OUTPUTS, session_id)][: -len(CALLS)]


@pytest.mark.long
@pytest.mark.parametrize("client", ["call_of_the_server_{0}", "made_up_{0}", "{0}"])
@pytest.mark.parametrize("server", ["call_of_the_server_{0}", "{1}", "", None], ids=str)
@pytest.mark.parametrize("target", CALLED)
def test_results_are_joined_under_ids_that_the_client_made(
    recorded: Recorded, target: str, server: str | None, client: str
) -> None:
    """Also of a server that gives none, or an empty one, or the same ones with each turn."""

    def given(number: int) -> str | None:
        return None if server is None else server.format(number, number % len(CALLS))

    found = outputs_of(recorded, target, given, client.format, lambda repeated: repeated)
    assert found == [str(number) for number in range(2 * len(CALLS))]


def without(id: str) -> Callable[[Any], Any]:
    """A change that leaves out what has an id."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: change(each) for name, each in value.items()}
        if isinstance(value, list):
            return [
                change(each)
                for each in value
                if not (isinstance(each, dict) and id in each.values())
            ]
        return value

    return change


def replacing(old: str, new: str) -> Callable[[Any], Any]:
    return lambda repeated: json.loads(json.dumps(repeated).replace(old, new))


@pytest.mark.parametrize(
    "change",
    [replacing('"g"', '"h"'), replacing("2}", "3}"), without("own_3"), without("own_1")],
    ids=["another name", "other arguments", "one call less", "the only one of its name less"],
)
@pytest.mark.parametrize("target", CALLED)
def test_results_of_other_calls_are_joined_with_none(
    recorded: Recorded, target: str, change: Callable[[Any], Any]
) -> None:
    """In the first turn; the second one is joined only where it was not changed."""
    found = outputs_of(recorded, target, "given_{0}".format, "own_{0}".format, change)
    assert found[: len(CALLS)] == [None] * len(CALLS)
    assert all(output is None or output == str(number) for number, output in enumerate(found))


@pytest.mark.parametrize("target", CALLED)
def test_a_call_keeps_its_id_whatever_a_client_does_to_its_arguments(
    recorded: Recorded, target: str
) -> None:
    found = outputs_of(
        recorded, target, "given_{0}".format, "given_{0}".format, replacing("2}", "3}")
    )
    assert found == [str(number) for number in range(2 * len(CALLS))]


@pytest.mark.parametrize(("client", "found"), [("own", [None, None]), ("given_1", [None, "18 C"])])
def test_of_two_equal_answers_none_is_taken(
    recorded: Recorded, client: str, found: list[str | None]
) -> None:
    """A request that was sent twice: the client goes on with the one or the other."""
    about = {"model": "m", "metadata": {"session_id": "s"}}
    for number in (0, 1):
        call = {
            "id": f"given_{number}",
            "type": "function",
            "function": {"name": "f", "arguments": "{}"},
        }
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
        recorded.sends(
            "/v1/chat/completions",
            {**about, "messages": [user("go")]},
            {"choices": [{"index": 0, "message": answer}]},
        ).end()
    repeated = {**answer, "tool_calls": [{**call, "id": client}]}
    told = [user("go"), repeated, {"role": "tool", "tool_call_id": client, "content": "18 C"}]
    end = recorded.sends(
        "/v1/chat/completions",
        {**about, "messages": told},
        {"choices": [{"index": 0, "message": model("Done.")}]},
    ).end()
    session_id, _ = recorded.session_of(end)
    assert [output for (output,) in asked(recorded.url, OUTPUTS, session_id)] == found


async def test_show_and_the_viewer_have_results_under_ids_that_the_client_made(
    on_each_engine: Recorded,
) -> None:
    outputs_of(
        on_each_engine,
        "/v1/responses",
        "given_{0}".format,
        "own_{0}".format,
        lambda repeated: repeated,
    )
    async with await LogReader.open(on_each_engine.url) as log:
        await require_exact(log, "latest", "2")
        items = (await shown(log, "latest", "2"))["items"]
    assert [item["output"] for item in items] == ["4", "5", "6", "7"]


@pytest.mark.long
@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_the_order_of_projection_changes_no_join(
    on_each_engine: Recorded, order: tuple[int, ...]
) -> None:
    url, calls = (
        on_each_engine.url,
        "SELECT exchange_id, item, call_key FROM p_items_v1 ORDER BY 1, 2",
    )
    outputs_of(
        on_each_engine,
        "/v1/chat/completions",
        "given_{0}".format,
        "own_{0}".format,
        lambda repeated: repeated,
    )
    assert run_command(url, "verify").code == 0
    wanted = asked(url, calls)
    keys = asked(url, "SELECT session_id, exchange_id FROM exchanges ORDER BY exchange_id")
    for table in ("p_items_v1", "p_results_v1"):
        asked(url, f"DELETE FROM {table}")
    with Store(url) as store, store.transaction():
        for number in order:
            store.projector.project(*keys[number])
    assert [key for _, _, key in wanted[:2]] == ["own_0", "own_1"]
    assert asked(url, calls) == wanted


# -- sessions of hosted agents, which their provider names


MAKES: dict[str, tuple[str, str, Told]] = {
    "claude": (
        "/v1/sessions",
        "/v1/sessions/sesn_1/events/stream",
        [{"agent": {"id": "agent_1"}, "id": "sesn_1"}],
    ),
    "openai": (
        "/v1/agents/sessions",
        "/v1/agents/sessions/asess_1/events",
        [{"agent": {"id": "a"}, "id": "asess_1"}],
    ),
    "openai in a stream": (
        "/v1/agents/sessions",
        "/v1/agents/sessions/asess_1/events",
        [
            {"type": "agent.session.created", "session": {"id": "asess_1"}},
            {"type": "agent.session.idle"},
        ],
    ),
}


def made(recorded: Recorded, case: str) -> Exchange:
    """A request that makes a session, and its answer in pieces; not ended yet."""
    target, _, told = MAKES[case]
    is_stream = len(told) > 1
    data = (
        "".join([f"data: {json.dumps(each)}\n\n" for each in told])
        if is_stream
        else json.dumps(told[0])
    )
    head = [("content-type", "text/event-stream" if is_stream else "application/json")]
    exchange = Exchange(recorded.journal, b"{}", head, target=target, started_ns=recorded.now_ns)
    return exchange.chunks([data[:9].encode(), data[9:].encode()])


@pytest.mark.parametrize("case", MAKES)
def test_what_makes_a_hosted_session_is_in_it(on_each_engine: Recorded, case: str) -> None:
    first = made(on_each_engine, case)
    session = on_each_engine.session_of(first)
    assert session[1] == "hosted"
    assert (
        on_each_engine.session_of(on_each_engine.reads(MAKES[case][1], b": \n\n").end()) == session
    )


@pytest.mark.parametrize("case", MAKES)
def test_what_makes_a_hosted_session_joins_a_stream_that_was_told_before(
    recorded: Recorded, case: str
) -> None:
    session = recorded.session_of(recorded.reads(MAKES[case][1], b": \n\n"))
    assert recorded.session_of(made(recorded, case).end()) == session


def test_what_makes_a_hosted_session_has_the_name_that_the_user_gives(recorded: Recorded) -> None:
    target, _, [told] = MAKES["claude"]
    exchange = recorded.sends(target, {}, told)
    named = (
        Exchange(recorded.journal, b"{}", target=target, session="mine")
        .chunk(json.dumps(told).encode())
        .end()
    )
    assert [recorded.session_of(each)[1] for each in (exchange, named)] == ["hosted", "path"]


def test_a_hosted_session_that_is_refused_is_a_session_of_its_own(recorded: Recorded) -> None:
    exchange = recorded.sends("/v1/sessions", {}, {"type": "error", "error": {"message": "no"}})
    assert recorded.session_of(exchange.end())[1] == "new"


# -- several owners of tokens

NOBODY: dict[str, Any] = {}
ANN: dict[str, Any] = {"attribution": Attribution("ann", "search")}
BOB: dict[str, Any] = {"attribution": Attribution("bob", "search")}
NAMING: dict[str, dict[str, Any]] = {
    "by the user": {"session": "run", "session_source": "path"},
    "by a header of its client": {"headers": [("x-session-id", "run")]},
    "by the path of a hosted agent": {
        "target": "/v1/sessions/sesn_1/events",
        "upstream": "anthropic",
    },
    "not at all, a probe": {"target": "/v1/models", "method": "GET"},
}


@pytest.mark.parametrize("how", NAMING)
def test_each_owner_has_a_session_of_a_name(on_each_engine: Recorded, how: str) -> None:
    recorded, owners = on_each_engine, (NOBODY, ANN, BOB)
    # in one batch
    first = [recorded.asks(HI, None, ends=False, **NAMING[how], **owner) for owner in owners]
    found = [recorded.session_of(exchange) for exchange in first]
    assert len(set(found)) == 3
    assert [
        recorded.session_of(recorded.asks(HI, "Hello!", **NAMING[how], **owner)) for owner in owners
    ] == found


@pytest.mark.parametrize("ends", [True, False])
def test_a_conversation_goes_on_with_its_owner_alone(on_each_engine: Recorded, ends: bool) -> None:
    recorded = on_each_engine
    of_ann = recorded.session_of(recorded.asks(HI, "Hello!", ends=ends, **ANN))
    told = [*HI, model("Hello!"), user("more")]
    of_bob = recorded.session_of(recorded.asks(told, None, ends=False, **BOB))
    assert recorded.session_of(recorded.asks(told, "More.", **ANN)) == of_ann != of_bob
    assert recorded.session_of(recorded.asks(told, "More.")) not in (of_ann, of_bob)


def test_a_response_is_continued_by_its_owner_alone(on_each_engine: Recorded) -> None:
    recorded = on_each_engine
    answered = recorded.session_of(
        recorded.sends("/v1/responses", {"input": "hi"}, {"object": "response", "id": "r"})
    )
    goes_on: dict[str, Any] = {"target": "/v1/responses", "given": {"previous_response_id": "r"}}
    of_ann = recorded.session_of(recorded.asks([], None, **goes_on, **ANN))
    assert recorded.session_of(recorded.asks([], None, **goes_on)) == answered != of_ann


def test_a_name_of_several_owners_is_answered_with_their_sessions(on_each_engine: Recorded) -> None:
    recorded, named = on_each_engine, NAMING["by the user"]
    [mine, anns] = [
        recorded.session_of(recorded.asks(HI, "Hello!", **named, **of))[0] for of in (NOBODY, ANN)
    ]
    ran = run_command(recorded.url, "show", "run")
    assert ran.code == 2
    assert "'run' is a session of several owners; give the id of one." in ran.err
    assert f"{mine} of no owner" in ran.err
    assert f"{anns} of ann" in ran.err
    assert run_command(recorded.url, "show", anns).code == 0
