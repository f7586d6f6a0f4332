"""Sessions of hosted agents, event by event, and what the SDK of their provider makes of the same
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import httpx2
from anthropic.lib.sessions import accumulate_managed_agents_event

from tests.support.sdks import anthropic_client

Json = dict[str, Any]
AT = "2026-11-01T00:00:00Z"
SESSION = "sesn_1"


def event(id: str, type: str, **more: Any) -> Json:
    return {"id": id, "type": type, "processed_at": AT, **more}


def said(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def spent(id: str, start: str, fresh: int, output: int, read: int = 0, written: int = 0) -> Json:
    counts = {"input_tokens": fresh, "output_tokens": output}
    cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return event(
        id, "span.model_request_end", model_request_start_id=start, model_usage={**counts, **cached}
    )


def idle(id: str, reason: str = "end_turn", **more: Any) -> Json:
    return event(id, "session.status_idle", stop_reason={"type": reason, **more})


def previewed(id: str, *pieces: str) -> list[Json]:
    begun = {"type": "event_start", "event": {"id": id, "type": "agent.message"}}
    deltas = []
    for piece in pieces:
        delta = {"type": "content_delta", "index": 0, "content": {"type": "text", "text": piece}}
        deltas.append({"type": "event_delta", "event_id": id, "delta": delta})
    return [begun, *deltas]


def turn(number: int, question: str, answer: str) -> list[Json]:
    """A turn that thinks, calls a tool of the provider, and answers in pieces and as a whole."""
    at = f"sevt_{number}"
    call = {"name": "bash", "input": {"command": "ls"}, "evaluated_permission": "allow"}
    return [
        event(f"{at}00", "user.message", content=said(question)),
        event(f"{at}01", "session.status_running"),
        event(f"{at}02", "span.model_request_start"),
        event(f"{at}03", "agent.thinking"),
        event(f"{at}04", "agent.tool_use", **call),
        spent(f"{at}05", f"{at}02", 10, 5, read=100),
        event(f"{at}06", "agent.tool_result", tool_use_id=f"{at}04", content=said("a.txt")),
        event(f"{at}07", "span.model_request_start"),
        *previewed(f"{at}08", answer[:2], answer[2:]),
        event(f"{at}08", "agent.message", content=said(answer)),
        spent(f"{at}09", f"{at}07", 20, 7, written=3),
        idle(f"{at}10"),
    ]


def custom_call(number: int) -> list[Json]:
    """A turn that waits for the client's own tool."""
    at = f"sevt_{number}"
    return [
        event(f"{at}00", "user.message", content=said("What is the weather?")),
        event(f"{at}01", "session.status_running"),
        event(f"{at}02", "agent.custom_tool_use", name="get_weather", input={"city": "Oslo"}),
        spent(f"{at}03", f"{at}01", 8, 4),
        idle(f"{at}04", "requires_action", event_ids=[f"{at}02"]),
        event(
            f"{at}05", "user.custom_tool_result", custom_tool_use_id=f"{at}02", content=said("rain")
        ),
        event(f"{at}06", "session.status_running"),
        event(f"{at}07", "agent.message", content=said("It rains.")),
        spent(f"{at}08", f"{at}06", 9, 3),
        idle(f"{at}09"),
    ]


def sub_agent(number: int) -> list[Json]:
    """A turn in which a sub-agent is told something, waits for a permission, and answers."""
    at, thread = f"sevt_{number}", "sthr_1"
    of_thread = {"session_thread_id": thread, "agent_name": "reader"}
    return [
        event(f"{at}00", "user.message", content=said("Read all files.")),
        event(f"{at}01", "session.status_running"),
        event(f"{at}02", "session.thread_created", **of_thread),
        event(
            f"{at}03",
            "agent.thread_message_sent",
            to_session_thread_id=thread,
            to_agent_name="reader",
            content=said("Read a.txt"),
        ),
        event(f"{at}04", "session.thread_status_running", **of_thread),
        event(
            f"{at}05",
            "agent.tool_use",
            name="bash",
            input={"command": "cat a.txt"},
            session_thread_id=thread,
            evaluated_permission="ask",
        ),
        event(f"{at}06", "user.tool_confirmation", tool_use_id=f"{at}05", result="allow"),
        event(
            f"{at}07",
            "agent.thread_message_received",
            from_session_thread_id=thread,
            from_agent_name="reader",
            content=said("It is empty."),
        ),
        event(
            f"{at}08", "session.thread_status_idle", **of_thread, stop_reason={"type": "end_turn"}
        ),
        event(f"{at}09", "agent.message", content=said("Nothing in it.")),
        spent(f"{at}10", f"{at}01", 30, 6),
        idle(f"{at}11"),
    ]


def bytes_of(events: Iterable[Json]) -> bytes:
    return "".join(
        [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    ).encode()


class SessionReading(NamedTuple):
    """What an SDK yields, put together: texts of the agent, calls, results, and tokens without
    those of the cache.
    """

    texts: list[str]
    asked: list[str]
    calls: list[tuple[str, str, Any]]
    results: dict[str, str]
    tokens: tuple[int, int]


def anthropic_reading(url: str, http: httpx2.Client | None = None) -> SessionReading:
    """What anthropic-python yields of the session's stream at a server, its previews accumulated as
    it does it.
    """
    with anthropic_client(url, **({} if http is None else {"http_client": http})) as client:
        with client.beta.sessions.events.stream(SESSION, event_deltas=["agent.message"]) as stream:
            return read_anthropic(stream)


def read_anthropic(events: Iterable[Any]) -> SessionReading:
    reading = SessionReading([], [], [], {}, (0, 0))
    message = None
    fresh = output = 0
    for each in events:
        message = accumulate_managed_agents_event(message, each)
        if each.type == "agent.message":
            assert message is not None
            reading.texts.append(
                "".join(part.text for part in message.content if part.type == "text")
            )
        elif each.type == "user.message":
            reading.asked.append("".join(part.text for part in each.content if part.type == "text"))
        elif each.type in ("agent.tool_use", "agent.custom_tool_use", "agent.mcp_tool_use"):
            reading.calls.append((each.id, each.name, each.input))
        elif each.type in ("agent.tool_result", "user.custom_tool_result"):
            id = each.tool_use_id if each.type == "agent.tool_result" else each.custom_tool_use_id
            reading.results[id] = "".join(part.text for part in each.content if part.type == "text")
        elif each.type == "span.model_request_end":
            fresh += each.model_usage.input_tokens
            output += each.model_usage.output_tokens
    return reading._replace(tokens=(fresh, output))
