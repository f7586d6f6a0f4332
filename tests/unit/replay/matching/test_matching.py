"""Which recorded exchange answers a request, and what is said where none does."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import Recording
from recorder.replay.matching import Match, Matcher, MatchRequest, Miss
from recorder.replay.matching.fingerprint import place
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from tests.support.corpus import CORPUS, needs_corpus
from tests.support.recordings import ask, event, get, record, stream
from tests.support.tables import table

AN_ID = "01a20550-59f6-4491-b3cf-ad21b33fcf0c"
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def matched(matcher: Matcher, request: MatchRequest) -> Match:
    found = matcher.match(request)
    assert isinstance(found, Match), found.message
    return found


def missed(matcher: Matcher, request: MatchRequest) -> Miss:
    found = matcher.match(request)
    assert isinstance(found, Miss), found.how
    return found


def at_position(recordings: Sequence[Recording], *, strict: bool = True) -> Matcher:
    """A matcher as that of an agent's replay, which goes down the whole ladder."""
    return Matcher(recordings, Rules(until="position"), strict=strict)


def says(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "stream": True, "input": [{"role": "user", "content": text}], **fields}


def turn(length: int, instructions: str) -> dict[str, Any]:
    """A turn of an agent after so many others, whose instructions are not the same in each run."""
    said = [
        {"role": role, "content": f"{role} {number}"}
        for number in range(length)
        for role in ("user", "assistant")
    ]
    return says("", instructions=instructions) | {
        "input": [*said, {"role": "user", "content": "next"}]
    }


def system_message(words: str) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "system", "content": words}, {"role": "user", "content": "hi"}],
    }


def tool_output(words: str) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": words}
    return {"model": "m", "input": [{"role": "user", "content": "hi"}, call, result]}


def form(model: str, sound: bytes, boundary: str = "a1b2c3d4e5") -> MatchRequest:
    """An upload as the SDK of OpenAI sends one."""
    fields = (
        b'Content-Disposition: form-data; name="model"\r\n\r\n' + model.encode(),
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        + sound,
    )
    mark = b"--" + boundary.encode()
    body = b"".join([*(mark + b"\r\n" + field + b"\r\n" for field in fields), mark, b"--\r\n"])
    headers = [("Content-Type", f"multipart/form-data; boundary={boundary}")]
    return ask(body, "/v1/audio/transcriptions", headers=headers)


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        return {
            name: shuffled(value[name], order) for name in order.sample(list(value), len(value))
        }
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


class TestExact:
    @given(VALUES, st.randoms(use_true_random=False), st.sampled_from([None, 2]), st.booleans())
    def test_a_request_equal_to_a_recorded_one_matches_it(
        self, value: Any, order: random.Random, indent: int | None, is_ascii: bool
    ) -> None:
        again = json.dumps(shuffled(value, order), indent=indent, ensure_ascii=is_ascii)
        recorded = record(ask(value))
        found = matched(Matcher([recorded]), ask(again.encode("utf-8", "surrogatepass")))
        assert (found.recorded, found.how, found.after) == (recorded, "exact", None)

    @given(TEXTS, TEXTS)
    def test_another_last_text_never_matches(self, recorded: str, asked: str) -> None:
        found = Matcher([record(ask(says(recorded)))]).match(ask(says(asked)))
        assert isinstance(found, Match) == (recorded == asked)

    @given(st.binary(), st.binary())
    def test_what_is_no_json_is_compared_as_bytes(self, recorded: bytes, asked: bytes) -> None:
        found = Matcher([record(ask(b"\0" + recorded))]).match(ask(b"\0" + asked))
        assert isinstance(found, Match) == (recorded == asked)

    def test_a_whole_number_is_the_same_with_a_fraction_and_true_is_not_one(self) -> None:
        assert (
            matched(Matcher([record(ask(b'{"temperature": 1}'))]), ask(b'{"temperature": 1.0}')).how
            == "exact"
        )
        [found] = missed(
            Matcher([record(ask(b'{"stream": true}'))]), ask(b'{"stream": 1}')
        ).differences
        assert found.recorded is not None
        assert "true" in found.recorded

    @table(
        "target",
        [
            *("/v1/responses", "/responses", "/openai/v1/responses", "/openai/responses"),
            *(
                "/v1/%72esponses",
                "https://api.openai.com/v1/responses",
                "/v1/responses?key=s&access_token=t",
            ),
        ],
    )
    def test_all_spellings_of_a_place_are_the_same(self, target: str) -> None:
        for one, other in [(target, "/v1/responses"), ("/v1/responses", target)]:
            assert matched(Matcher([record(ask({}, one))]), ask({}, other)).how == "exact"

    @table(
        "other",
        [
            *(
                ask({}, "/v1/responses", method="PUT"),
                ask({}, "/v1/responses/compact"),
                ask({}, "/v2/responses"),
            ),
            *(ask({}, "/v1/responses?beta=true"), ask({}, "/v1/responses", upstream="azure")),
        ],
    )
    def test_another_place_never_matches(self, other: MatchRequest) -> None:
        missed(Matcher([record(ask({}))]), other)

    def test_the_order_of_parameters_does_not_count_but_their_values_do(self) -> None:
        recorded = record(get("/v1/files?limit=1&after=f"))
        assert matched(Matcher([recorded]), get("/v1/files?after=f&limit=1"))
        missed(Matcher([recorded]), get("/v1/files?after=f&limit=2"))

    def test_a_parameter_whose_value_was_not_kept_is_not_compared(self) -> None:
        assert matched(
            Matcher([record(get("/v1/files?purpose=REDACTED&key=REDACTED"))]),
            get("/v1/files?key=mine"),
        ).how


class TestNoise:
    def test_noise_does_not_count_and_the_match_says_so(self) -> None:
        recorded = record(ask(says("hi", prompt_cache_key="a")))
        assert matched(Matcher([recorded]), ask(says("hi", prompt_cache_key="b"))).how == "noise"

    def test_an_equal_request_goes_before_one_that_is_equal_but_for_noise(self) -> None:
        recordings = [record(ask(says("hi", user=name)), name=name) for name in "abc"]
        matcher = Matcher(recordings)
        expected = [recordings[number] for number in (1, 0, 2)]
        assert [matched(matcher, ask(says("hi", user=name))).recorded for name in "bac"] == expected

    def test_an_agent_that_runs_elsewhere_matches_though_the_model_names_the_recorded_directory(
        self,
    ) -> None:
        def turn(directory: str) -> dict[str, Any]:
            said = says(f"<environment_context>\n  <cwd>{directory}</cwd>\n</environment_context>")
            call = {
                "type": "function_call",
                "call_id": "call_1",
                "arguments": '{"cmd": "ls /home/me/project/src"}',
            }
            result = {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": f"{directory}/src/x.py",
            }
            return {**said, "input": [*said["input"], call, result]}

        matcher = Matcher([record(ask(turn("/home/me/project")))])
        assert matched(matcher, ask(turn("/tmp/elsewhere/project"))).how == "noise"

    def test_the_separator_of_a_form_is_noise(self) -> None:
        def form(boundary: str) -> MatchRequest:
            headers = [("Content-Type", f"multipart/form-data; boundary={boundary}")]
            return ask(f"--{boundary}\r\n\r\nsound\r\n--{boundary}--".encode(), headers=headers)

        assert matched(Matcher([record(form("a1b2c3d4e5"))]), form("f6a7b8c9d0")).how == "noise"

    def test_one_that_was_answered_before_its_body_had_come_matches_what_begins_so(self) -> None:
        whole = record(ask({"id": "a"}))
        request = msgspec.structs.replace(whole.request, complete=False)
        begun = msgspec.structs.replace(whole, request=request, request_body=b'{"id"')
        matcher = Matcher([whole, begun])
        assert [matched(matcher, ask({"id": "a"})).how for _ in range(2)] == ["exact", "noise"]
        missed(Matcher([begun]), ask({"other": "a"}))
        missed(Matcher([begun], Rules(until="exact")), ask({"id": "a"}))

    def test_rules_say_how_far_down_a_match_is_looked_for(self) -> None:
        recordings = [record(ask(says("hi", user="a", instructions="1")))]
        noisy, moved = (
            ask(says("hi", user="b", instructions="1")),
            ask(says("hi", user="a", instructions="2")),
        )
        assert matched(Matcher(recordings), noisy).how == "noise"
        assert [
            each.path
            for each in missed(Matcher(recordings, Rules(until="exact")), noisy).differences
        ] == ["user"]
        found = matched(at_position(recordings), moved)
        assert (found.how, found.differing) == ("position", ("instructions",))

    @pytest.mark.parametrize(
        ("target", "place", "said"),
        [
            ("/v1/responses", "instructions", lambda words: says("hi", instructions=words)),
            ("/v1/responses", "tools[0].name", lambda words: says("hi", tools=[{"name": words}])),
            ("/v1/chat/completions", "messages[0].content", system_message),
            ("/v1/responses", "input[2].output", tool_output),
        ],
        ids=("instructions", "tools", "system-message", "traceback"),
    )
    def test_what_differs_beyond_noise_is_a_miss_that_names_the_place(
        self, target: str, place: str, said: Callable[[str], dict[str, Any]]
    ) -> None:
        recordings = [record(ask(said("as it was"), target))]
        changed = ask(said("Traceback (most recent call last):"), target)
        miss = missed(Matcher(recordings), changed)
        assert [each.path for each in miss.differences] == [place]
        assert f"  {place}: recorded " in miss.message
        assert matched(at_position(recordings), changed).differing == (place.partition(".")[0],)


NOON, LATER = "2026-11-26T20:29:03.707+00:00", "2026-11-27T08:00:00Z"
HOME, ELSEWHERE = (
    f"/root/.copilot/session-state/{id}/x" for id in ("b7ec4433-36d9-4951-b01a-a59f4c60b60a", AN_ID)
)


class TestStamps:
    STAMPS = Rules(until="stamps")

    @table(
        ("one", "other"),
        [
            (
                f"<current_datetime>{NOON}</current_datetime>\n\nGo.",
                f"<current_datetime>{LATER}</current_datetime>\n\nGo.",
            ),
            ("It is 2026-11-26 20:29:03.", "It is 2026-11-27 08:00:00."),
            (f"Files are in {HOME}.", f"Files are in {ELSEWHERE}."),
        ],
    )
    @table(
        "of",
        [
            says,
            lambda text: says("go", instructions=text),
            lambda text: says("go", tools=[{"name": text}]),
        ],
    )
    def test_the_only_one_that_differs_in_times_and_uuids_answers(
        self, of: Callable[[str], dict[str, Any]], one: str, other: str
    ) -> None:
        recordings = [record(ask(of(one)))]
        found = matched(Matcher(recordings, self.STAMPS), ask(of(other)))
        assert (found.how, len(found.differing)) == ("stamps", 1)
        assert "1 place" in missed(Matcher(recordings), ask(of(other))).message

    @table(
        ("one", "other"),
        [
            ("What happened on 2024-01-01?", "What happened on 2024-01-02?"),
            ("At 20:29:03.", "At 08:00:00."),
            (f"It is {NOON}. Go.", f"It is {LATER}. Stop."),
            ("commit 0123456789abcdef0123456789abcdef", "commit fedcba9876543210fedcba9876543210"),
        ],
    )
    def test_a_date_a_time_of_day_and_other_words_are_what_is_asked(
        self, one: str, other: str
    ) -> None:
        missed(Matcher([record(ask(says(one)))], self.STAMPS), ask(says(other)))

    def test_a_parameter_is_not_a_text(self) -> None:
        recorded = record(ask(says("hi", conversation=HOME)))
        missed(Matcher([recorded], self.STAMPS), ask(says("hi", conversation=ELSEWHERE)))

    def test_two_that_differ_so_are_not_chosen_from(self) -> None:
        recordings = [record(ask(says(f"It is {time}."))) for time in (NOON, LATER)]
        matcher = Matcher(recordings, self.STAMPS)
        asked = ask(says("It is 2026-11-28T00:00:00Z."))
        assert "2 of them differ in times and UUIDs only" in missed(matcher, asked).message
        matched(matcher, ask(says(f"It is {LATER}.")))
        assert matched(matcher, asked).recorded is recordings[0]

    def test_without_strictness_it_answers_again(self) -> None:
        matcher = Matcher([record(ask(says(f"It is {NOON}.")))], self.STAMPS, strict=False)
        assert [
            matched(matcher, ask(says(f"It is {time}."))).how for time in (LATER, NOON, LATER)
        ] == [*("stamps", "exact", "stamps")]

    def test_a_miss_for_want_of_the_rung_says_how_it_is_allowed(self) -> None:
        recordings = [record(ask(says(f"It is {NOON}.")))]
        assert (
            'until = "stamps"' in missed(Matcher(recordings), ask(says(f"It is {LATER}."))).message
        )
        assert (
            'until = "stamps"' not in missed(Matcher(recordings), ask(says("It is late."))).message
        )


class TestPosition:
    def test_other_instructions_tools_and_results_match_at_the_same_position(self) -> None:
        def turn(words: str) -> dict[str, Any]:
            result = {"type": "function_call_output", "call_id": "call_1", "output": words}
            said = says("list the files", instructions=words, tools=[{"name": words}])
            return {
                **said,
                "input": [{"role": "developer", "content": words}, *said["input"], result],
            }

        recorded = record(ask(turn("took 3 s")))
        found = matched(at_position([recorded]), ask(turn("took 4 s")))
        assert (found.recorded, found.how) == (recorded, "position")

    @pytest.mark.parametrize(
        ("target", "words", "said"),
        [
            ("/v1/chat/completions", "tools", {"messages": [{"role": "user", "content": "hi"}]}),
            ("/v1/messages", "system", {"messages": [{"role": "user", "content": "hi"}]}),
            (
                "/v1/models/g:streamGenerateContent",
                "systemInstruction",
                {"contents": [{"parts": [{"text": "hi"}]}]},
            ),
        ],
        ids=("chat", "anthropic", "gemini"),
    )
    def test_conversations_of_all_apis_have_positions(
        self, target: str, words: str, said: dict[str, Any]
    ) -> None:
        matcher = at_position([record(ask({**said, words: "1"}, target))])
        missed(matcher, ask({**said, words: "2", "n": 1}, target))
        assert matched(matcher, ask({**said, words: "2"}, target)).how == "position"

    def test_the_words_of_a_wrapped_request_have_a_position_too(self) -> None:
        def wrapped(words: str) -> MatchRequest:
            request = {
                "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "systemInstruction": words,
            }
            return ask(
                {"model": "g", "request": request}, "/v1internal:streamGenerateContent?alt=sse"
            )

        assert matched(at_position([record(wrapped("1"))]), wrapped("2")).how == "position"

    @table(
        "change",
        [
            {"model": "n"},
            {"stream": False},
            {"temperature": 1},
            {"input": "hi"},
            {
                "input": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": "hello"},
                ]
            },
            {"previous_response_id": "resp_1"},
        ],
    )
    def test_what_changes_the_question_is_another_position(self, change: dict[str, Any]) -> None:
        missed(
            at_position([record(ask(says("hi", instructions="1")))]),
            ask(says("hi", instructions="2") | change),
        )

    def test_the_results_of_other_calls_are_another_position(self) -> None:
        def turn(call_id: str, output: str) -> dict[str, Any]:
            said = says("go")
            calls = [{"type": "function_call", "call_id": f"call_{number}"} for number in (1, 2)]
            result = {"type": "function_call_output", "call_id": call_id, "output": output}
            return {**said, "input": [*said["input"], *calls, result]}

        missed(at_position([record(ask(turn("call_1", "a")))]), ask(turn("call_2", "b")))

    @table(
        ("recorded", "asked"),
        [
            (
                "Go.\n\n<details>\nOpen: a.py\n</details>",
                "Go.\n\n<details>\nOpen: b.py\n</details>",
            ),
            ("<now>9:00</now>\n\n<tabs>1</tabs>\nGo.", "<now>9:05</now>\n\n<tabs>2</tabs>\nGo."),
            ("Go.\n<context kind='a'>x</context>\n", "Go."),
        ],
    )
    def test_elements_around_the_last_text_may_differ(self, recorded: str, asked: str) -> None:
        found = matched(at_position([record(ask(says(recorded)))]), ask(says(asked)))
        assert found.how == "position"
        missed(Matcher([record(ask(says(recorded)))]), ask(says(asked)))

    @table(
        ("recorded", "asked"),
        [
            ("<article>one</article>", "<article>two</article>"),
            ("Read <b>this</b>", "Read <b>that</b>"),
            ("<b>This</b> one", "<b>That</b> one"),
            ("<now>9:00</now>\n\nGo.", "<now>9:00</now>\n\nStop."),
            ("Go.\n\n<unclosed>one", "Go.\n\n<unclosed>two"),
            ("<a>1</a>\n<b>2</b>", "<a>1</a>\n<b>3</b>"),
        ],
    )
    def test_elements_that_are_or_stand_in_the_text_are_the_question(
        self, recorded: str, asked: str
    ) -> None:
        missed(at_position([record(ask(says(recorded)))]), ask(says(asked)))

    def test_two_at_the_same_position_are_not_chosen_from(self) -> None:
        recordings = [record(ask(says("hi", instructions=words))) for words in ("1", "2")]
        matcher = at_position(recordings)
        assert (
            "2 of them are at the same position"
            in missed(matcher, ask(says("hi", instructions="3"))).message
        )
        matched(matcher, ask(says("hi", instructions="2")))
        assert matched(matcher, ask(says("hi", instructions="3"))).recorded is recordings[0]

    def test_an_equal_one_that_is_used_is_not_replaced_by_one_at_its_position(self) -> None:
        recordings = [record(ask(says("hi", instructions=words))) for words in ("1", "2")]
        matcher = at_position(recordings)
        matched(matcher, ask(says("hi", instructions="1")))
        assert "used" in missed(matcher, ask(says("hi", instructions="1"))).message

    def test_what_is_no_conversation_has_no_position(self) -> None:
        recorded = record(ask({"input": "hi", "instructions": "1"}, "/v1/embeddings"))
        missed(at_position([recorded]), ask({"input": "hi", "instructions": "2"}, "/v1/embeddings"))


class TestUse:
    def test_equal_requests_are_answered_in_recorded_order_and_then_missed(self) -> None:
        recordings = [record(ask(says("hi")), name=str(number)) for number in range(3)]
        matcher = Matcher(recordings)
        assert [matched(matcher, ask(says("hi"))).recorded for _ in range(3)] == recordings
        miss = missed(matcher, ask(says("hi")))
        assert miss.message.startswith("All 3 recorded answers are used: POST /responses (openai)")
        assert (miss.nearest, miss.differences) == (recordings[-1], [])

    def test_without_strictness_a_second_run_is_answered_as_the_first(self) -> None:
        recordings = [record(ask(says("hi")), name=str(number)) for number in range(3)]
        matcher = Matcher(recordings, strict=False)
        assert [matched(matcher, ask(says("hi"))).recorded for _ in range(7)] == [
            *recordings * 2,
            recordings[0],
        ]
        missed(matcher, ask(says("ho")))

    def test_without_strictness_an_agent_that_runs_again_is_answered_by_position_again(
        self,
    ) -> None:
        recordings = [record(ask(turn(length, "1")), name=str(length)) for length in range(3)]
        matcher = at_position(recordings, strict=False)
        for run in "234":
            found = [matched(matcher, ask(turn(length, run))) for length in range(3)]
            assert [(each.recorded, each.how) for each in found] == [
                (each, "position") for each in recordings
            ]

    def test_without_strictness_what_was_matched_closely_is_found_by_position_later(self) -> None:
        matcher = at_position([record(ask(turn(1, "1")))], strict=False)
        assert [matched(matcher, ask(turn(1, run))).how for run in ("1", "2", "1", "2")] == [
            *("exact", "position", "exact", "position")
        ]

    def test_of_several_at_a_position_the_one_that_was_given_there_is_given_again(self) -> None:
        recordings = [record(ask(turn(1, run)), name=run) for run in "ab"]
        matcher = at_position(recordings, strict=False)
        for run in "cde":
            assert matched(matcher, ask(turn(1, "a"))).recorded == recordings[0]
            assert matched(matcher, ask(turn(1, run))).recorded == recordings[1]

    def test_of_several_at_a_position_none_is_guessed_when_all_are_used(self) -> None:
        matcher = at_position([record(ask(turn(1, run)), name=run) for run in "ab"], strict=False)
        missed(matcher, ask(turn(1, "c")))
        matched(matcher, ask(turn(1, "a")))
        matched(matcher, ask(turn(1, "b")))
        missed(matcher, ask(turn(1, "c")))

    def test_strictly_a_position_is_answered_once(self) -> None:
        matcher = at_position([record(ask(turn(1, "1")))])
        assert matched(matcher, ask(turn(1, "2"))).how == "position"
        missed(matcher, ask(turn(1, "3")))

    def test_a_get_ends_with_the_last_state(self) -> None:
        states = [record(get("/v1/models"), name=str(number)) for number in range(2)]
        matcher = Matcher(states)
        assert [matched(matcher, get("/models")).recorded for _ in range(4)] == [
            *states,
            *states[1:] * 2,
        ]

    def test_what_was_not_asked_for_is_unused(self) -> None:
        recordings = [record(ask(says(text))) for text in "abc"]
        matcher = Matcher(recordings)
        matched(matcher, ask(says("b")))
        assert matcher.unused() == [recordings[0], recordings[2]]

    def test_what_was_asked_is_remembered_without_secrets(self) -> None:
        matcher = Matcher([record(ask({}), name="e-1")])
        matcher.match(ask({}, "/v1/responses?key=secret"))
        matcher.match(ask({"a": 1}))
        first, second = matcher.seen()
        assert (first.how, first.exchange_id, first.target) == (
            "exact",
            "e-1",
            "/v1/responses?key=REDACTED",
        )
        assert second.how == "miss"
        assert second.message
        assert "a:" in second.message

    def test_no_two_threads_get_the_same(self) -> None:
        bodies = [says("hi", user=str(number % 7)) for number in range(400)]
        matcher = Matcher(
            [record(ask(body), name=str(number)) for number, body in enumerate(bodies)]
        )
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda body: matched(matcher, ask(body)), bodies))
        assert len({match.recorded.exchange.exchange_id for match in found}) == len(bodies)
        assert matcher.unused() == []

    @given(st.lists(st.booleans(), min_size=12, max_size=12))
    def test_two_agents_with_equal_histories_match_turn_by_turn_in_any_interleaving(
        self, turns: list[bool]
    ) -> None:
        def history(length: int, session: str) -> MatchRequest:
            said = [
                {"role": role, "content": f"{role} {turn}"}
                for turn in range(length)
                for role in ("user", "model")
            ]
            return ask(
                says("", prompt_cache_key=session)
                | {"input": [*said, {"role": "user", "content": "next"}]}
            )

        recordings = [
            record(history(turn, s), name=f"{s}{turn}") for turn in range(6) for s in "ab"
        ]
        matcher = Matcher(recordings)
        at = {"c": 0, "d": 0}
        for is_first in turns:
            session = "c" if (is_first and at["c"] < 6) or at["d"] == 6 else "d"
            name = matched(matcher, history(at[session], session)).recorded.exchange.exchange_id
            assert name[1:] == str(at[session])
            at[session] += 1
        assert matcher.unused() == []


class TestMiss:
    def test_it_names_the_nearest_and_what_differs(self) -> None:
        recordings = [record(ask(says(text, temperature=2)), name=text) for text in ("one", "two")]
        miss = missed(Matcher(recordings), ask(says("two!", temperature=2)))
        assert miss.nearest is not None
        assert [each.path for each in miss.differences] == ["input[0].content"]
        assert '\n  input[0].content: recorded "one", asked "two!"' in miss.message
        noisy = missed(Matcher([record(ask(says("one", user="a")))]), ask(says("two", user="b")))
        assert [each.path for each in noisy.differences] == ["input[0].content"]

    def test_fewer_differences_are_nearer_within_a_message_too(self) -> None:
        far, near = (
            record(ask(says("a", x=[1, 2, 3], y=1))),
            record(ask(says("b", x=[4, 5, 6], y=2))),
        )
        assert (
            missed(
                Matcher([record(ask(b"bytes")), far, near]), ask(says("c", x=[4, 5, 6], y=1))
            ).nearest
            is near
        )
        far, near = (record(ask(says("", input=[{"a": 1, "b": b, "c": b}]))) for b in (1, 2))
        assert (
            missed(Matcher([far, near]), ask(says("", input=[{"a": 9, "b": 2, "c": 2}]))).nearest
            is near
        )

    def test_the_nearest_is_found_among_many(self) -> None:
        recordings = [
            record(ask(says("", input=[number, number + 1]))) for number in range(0, 100, 2)
        ]
        assert missed(Matcher(recordings), ask(says("", input=[80, -1]))).nearest is recordings[40]

    def test_one_that_waits_for_its_request_is_nearer_than_one_that_was_asked_for(self) -> None:
        recordings = [record(ask(says("one", x=1))), record(ask(says("two", x=2)))]
        matcher = Matcher(recordings)
        matched(matcher, ask(says("one", x=1)))
        miss = missed(matcher, ask(says("one!", x=1)))
        assert (miss.nearest, "already used" in miss.message) == (recordings[1], False)
        matched(matcher, ask(says("two", x=2)))
        assert missed(matcher, ask(says("one!", x=1))).nearest is recordings[0]

    def test_one_with_as_many_messages_is_nearer_than_one_with_more(self) -> None:
        def said(*texts: str) -> MatchRequest:
            return ask(
                {"model": "m", "input": [{"role": "user", "content": text} for text in texts]}
            )

        recordings = [record(said("a", "b", "c")), record(said("x", "y"))]
        assert missed(Matcher(recordings), said("a", "b")).nearest is recordings[1]

    @table(
        ("recorded", "asked", "said"),
        [
            (b"sound", b"noise", 'file.content: recorded "sound", asked "noise"'),
            (b"\xff\x00", b"\xff\x01", 'file.content: recorded "2 bytes, SHA-256 '),
        ],
    )
    def test_of_a_form_the_part_that_differs_is_named(
        self, recorded: bytes, asked: bytes, said: str
    ) -> None:
        recordings = [record(form("whisper-1", recorded))]
        miss = missed(Matcher(recordings), form("whisper-1", asked, "f6a7b8c9d0"))
        assert [each.path for each in miss.differences] == ["file.content"]
        assert said in miss.message
        changed = missed(Matcher(recordings), form("whisper-2", recorded, "f6a7b8c9d0"))
        assert '\n  model.content: recorded "whisper-1", asked "whisper-2"' in changed.message

    def test_long_texts_are_shown_where_they_part(self) -> None:
        [found] = missed(
            Matcher([record(ask(says("x" * 9_000 + "one")))]), ask(says("x" * 9_000 + "two"))
        ).differences
        assert found.recorded is not None
        assert found.recorded.startswith("…x")
        assert found.recorded.endswith('xone"')
        assert found.requested is not None
        assert found.requested.endswith('xtwo"')
        assert len(found.requested) < 130

    def test_of_a_list_too_long_to_compare_it_says_so(self) -> None:
        numbers = list(range(150_000))
        [found] = missed(
            Matcher([record(ask({"input": numbers}))]), ask({"input": [*numbers, 1]})
        ).differences
        assert found.path == "input"
        assert found.requested == "150001 members, not all compared"

    def test_a_place_without_recordings_is_told_with_those_that_have_some(self) -> None:
        miss = missed(Matcher([record(ask({}))] * 2), ask({}, "/v1/chat/completions?beta=true"))
        assert miss.message == (
            "Nothing recorded answers POST /chat/completions?beta=true (openai). Recorded were:\n"
            "  POST /responses (openai): 2"
        )
        assert [each.path for each in miss.differences] == ["path", "query"]

    def test_without_recordings_it_says_so(self) -> None:
        miss = missed(Matcher([]), ask({}))
        assert (miss.nearest, "there are no recordings" in miss.message) == (None, True)

    @table(
        "body", [b"", b"\xff", b"{", b"[" * 100_000, b'"\\ud800"', b"NaN", b"1e999", b"9" * 9_000]
    )
    def test_no_body_is_too_strange(self, body: bytes) -> None:
        missed(Matcher([record(ask(says("hi")))]), ask(body))
        assert matched(Matcher([record(ask(body))]), ask(body)).how == "exact"


class TestRetrieved:
    """`GET /responses/{id}`, where only the exchange that made the response was recorded."""

    def test_a_stream_goes_on_after_any_number(self) -> None:
        made = record(ask(says("hi")), *stream("resp_1"))
        matcher = Matcher([record(ask(says("ho")), *stream("resp_2")), made])
        for after in range(5):
            found = matched(
                matcher, get(f"/v1/responses/resp_1?stream=true&starting_after={after}")
            )
            assert (found.recorded, found.after) == (made, after)
        assert matched(matcher, get("/v1/responses/resp_1?stream=true")).after is None
        assert len(matcher.unused()) == 2

    def test_a_recorded_question_is_answered_first(self) -> None:
        resumed = record(
            get("/v1/responses/resp_1?stream=true&starting_after=2"), *stream("resp_1")[3:]
        )
        matcher = Matcher([record(ask(says("hi")), *stream("resp_1")), resumed])
        found = matched(matcher, get("/v1/responses/resp_1?stream=true&starting_after=2"))
        assert (found.recorded, found.after) == (resumed, None)

    def test_of_a_response_in_parts_the_one_that_goes_on_is_given(self) -> None:
        cut = record(ask(says("hi")), *stream("resp_1", 9, whole=False)[:4])
        rest = record(
            get("/v1/responses/resp_1?stream=true&starting_after=3"),
            *stream("resp_1", 9)[4:-1],
            event("response.completed", 10, response={"id": "resp_1", "status": "completed"}),
            first_number=4,
        )
        matcher = Matcher([cut, rest])

        def part(after: int) -> Recording:
            return matched(
                matcher, get(f"/v1/responses/resp_1?stream=true&starting_after={after}")
            ).recorded

        assert [part(after) for after in (1, 2, 4, 9)] == [cut, cut, rest, rest]

    def test_what_was_cut_for_good_has_no_rest(self) -> None:
        matcher = Matcher([record(ask(says("hi")), *stream("resp_1", whole=False))])
        missed(matcher, get("/v1/responses/resp_1?stream=true&starting_after=3"))
        missed(matcher, get("/v1/responses/resp_1"))

    def test_the_response_as_a_document_is_what_its_last_event_states(self) -> None:
        found = matched(
            Matcher([record(ask(says("hi")), *stream("resp_1"))]), get("/v1/responses/resp_1")
        ).recorded
        assert (
            b"".join(piece.raw for piece in found.pieces)
            == b'{"id": "resp_1", "status": "completed"}'
        )
        assert found.headers == [("content-type", "application/json")]

    def test_a_response_that_came_as_a_document_is_given_once_it_is_finished(self) -> None:
        def document(status: str) -> Recording:
            body = json.dumps({"id": status, "status": status}).encode()
            return record(ask(says(status)), body, content_type="application/json")

        matcher = Matcher([finished := document("completed"), document("queued")])
        assert matched(matcher, get("/v1/responses/completed")).recorded is finished
        missed(matcher, get("/v1/responses/queued"))

    def test_the_id_is_found_in_an_event_kept_in_pieces(self) -> None:
        first, *rest = stream("resp_1")
        made = record(ask(says("hi")), first[:30], first[30:], *rest)
        assert matched(Matcher([made]), get("/v1/responses/resp_1?stream=true")).recorded is made

    def test_an_interaction_goes_on_after_the_event_of_an_id(self) -> None:
        made, path = ask(says("hi"), "/v1beta/interactions"), "/v1beta/interactions/i?stream=true"
        events = [
            b'data: {"event_type": "step.delta", "event_id": "e%d"}\n\n' % number
            for number in range(5)
        ]
        events[0] = (
            b'data: {"event_type": "interaction.created", "interaction": {"id": "i"}, "event_id": "e0"}\n\n'
        )
        matcher = Matcher(
            [record(made, *events[:3]), record(get(f"{path}&last_event_id=e2"), *events[3:])]
        )

        def rest(query: str) -> list[bytes]:
            return [piece.raw for piece in matched(matcher, get(f"{path}{query}")).recorded.pieces]

        assert rest("&last_event_id=e0") == events[1:3]
        assert rest("&last_event_id=e2") == events[3:]
        assert rest("") == events[:3]
        missed(matcher, get(f"{path}&last_event_id=e9"))

    @pytest.mark.parametrize(
        "path", ["resp_9", "resp_1/input_items", "resp_1?stream=true&starting_after=x"]
    )
    def test_other_questions_are_answered_as_recorded_only(self, path: str) -> None:
        made = record(ask(says("hi")), *stream("resp_1"))
        missed(Matcher([made]), get(f"/v1/responses/{path}"))
        missed(Matcher([made]), ask(b"", "/v1/responses/resp_1/cancel"))
        assert matched(
            Matcher([made, record(get(f"/v1/responses/{path}"))]), get(f"/v1/responses/{path}")
        )


def corpus_requests() -> Iterator[tuple[str, MatchRequest]]:
    for path in sorted(CORPUS.glob("**/*.request.json")):
        told = json.loads(path.read_text())
        body = b"" if told["body"] is None else json.dumps(told["body"]).encode()
        yield path.name, MatchRequest(told["method"], told["url"], path.parent.name, [], body)


def shuffled_again(requests: Sequence[tuple[str, MatchRequest]]) -> list[tuple[str, MatchRequest]]:
    order = random.Random(7)
    again = [
        (
            name,
            msgspec.structs.replace(
                request, body=json.dumps(shuffled(json.loads(request.body), order)).encode()
            ),
        )
        if request.body
        else (name, request)
        for name, request in requests
    ]
    order.shuffle(again)
    return again


@needs_corpus
def test_every_real_request_matches_itself_and_only_itself() -> None:
    requests = list(corpus_requests())
    alike = Counter((place(each, DEFAULT_RULES), each.body) for _, each in requests)
    matcher = Matcher([record(request, name=name) for name, request in requests])
    bodies = {name: (place(request, DEFAULT_RULES), request.body) for name, request in requests}
    assert len(requests) > 300
    assert max(alike.values()) > 1
    for name, request in shuffled_again(requests):
        found = matched(matcher, request)
        assert found.how == "exact"
        assert bodies[found.recorded.exchange.exchange_id] == bodies[name]
    assert matcher.unused() == []


@pytest.mark.long
@needs_corpus
def test_no_real_request_matches_another_one_that_is_not_equal() -> None:
    """But at its position: the same question with other instructions, other tools."""
    requests = list(corpus_requests())
    rules = Rules(until="noise")
    everywhere = Matcher([record(request, name=name) for name, request in requests], rules)
    for name, request in requests:
        assert matched(everywhere, request).how in ("exact", "noise"), name
        body = json.loads(request.body or b"{}")
        missed(
            everywhere,
            msgspec.structs.replace(request, body=json.dumps({**body, "other": 1}).encode()),
        )
