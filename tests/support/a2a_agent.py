"""An agent that speaks A2A, of the official SDK, over HTTP on loopback: version 1.0 and 0.3,
JSON-RPC and REST.

What it does, the text of a message says: `report`, `say`, `ask`, `fail`, `refuse`, or `wait` until
it is canceled.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import uvicorn
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import (
    new_data_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
)
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import InvalidParamsError
from starlette.applications import Starlette

STARTED_S = 30.0


class Reporter:
    """The work of the agent."""

    async def execute(self, context: Any, queue: Any) -> None:
        wanted = context.get_user_input()
        if wanted == "say":
            await queue.enqueue_event(new_text_message("Grüße", role=Role.ROLE_AGENT))
            return
        if wanted == "refuse":
            raise InvalidParamsError("no such report")
        task = context.current_task or new_task_from_user_message(context.message)
        await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        await updater.start_work(said("I look at it."))
        if wanted == "wait":
            await asyncio.Event().wait()
        if wanted == "fail":
            await updater.failed(said("The press is broken."))
        elif wanted == "ask":
            await updater.requires_input(said("Which year?"))
        else:
            for number, text in enumerate(("It is", " sunny", " ☀.")):
                parts = [new_text_part(text)]
                await updater.add_artifact(
                    parts, artifact_id="r", name="weather", append=number > 0
                )
            await updater.add_artifact(
                [new_data_part({"celsius": 21})], artifact_id="d", last_chunk=True
            )
            await updater.complete(said("Done."))

    async def cancel(self, context: Any, queue: Any) -> None:
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def said(text: str) -> Any:
    return new_text_message(text, role=Role.ROLE_AGENT)


def card(url: str, version: str, binding: str = "JSONRPC") -> Any:
    """The card of the agent at an address, which speaks one version there."""
    interface = AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
    return AgentCard(
        name="reporter",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
    )


def client(url: str, version: str, binding: str = "JSONRPC") -> Any:
    """The client of the SDK for an agent at an address."""
    config = ClientConfig(supported_protocol_bindings=[binding])
    return ClientFactory(config).create(card(url, version, binding))


async def asked(url: str, version: str, text: str, binding: str = "JSONRPC") -> AsyncIterator[Any]:
    """What the SDK reads of the stream that answers a message with new ids."""
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[new_text_part(text)])
    async with client(url, version, binding) as asking:
        async for event in asking.send_message(SendMessageRequest(message=message)):
            yield event


async def followed(url: str, version: str, binding: str) -> list[Any]:
    """What the SDK reads of a task that it follows a second time, and cancels then."""
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[new_text_part("wait")])
    async with client(url, version, binding) as asking:
        first = asking.send_message(SendMessageRequest(message=message))
        id = (await anext(first)).task.id
        again = asking.subscribe(SubscribeToTaskRequest(id=id))
        found = [await anext(again)]
        await asking.cancel_task(CancelTaskRequest(id=id))
        for stream, into in ((again, found), (first, [])):
            async for event in stream:
                into.append(event)
    return found


async def task_of(url: str, version: str, id: str, binding: str = "JSONRPC") -> Any:
    """A task as the server has put it together."""
    async with client(url, version, binding) as asking:
        return await asking.get_task(GetTaskRequest(id=id))


@contextlib.contextmanager
def serving_a2a(path: str = "/agent") -> Iterator[str]:
    """Serve the agent on a free port, over REST below the same path; gives its address without the
    path.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        handler = DefaultRequestHandler(Reporter(), InMemoryTaskStore(), card(base, "1.0"))
        over_json_rpc = create_jsonrpc_routes(handler, path, enable_v0_3_compat=True)
        over_rest = create_rest_routes(handler, enable_v0_3_compat=True, path_prefix=path)
        app = Starlette(routes=[*over_json_rpc, *over_rest])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield base
        finally:
            server.should_exit = True
            thread.join(STARTED_S)
