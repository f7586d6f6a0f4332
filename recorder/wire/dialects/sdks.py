"""The official SDKs of companies, in Python and in JavaScript: how a client of one is made. Data
only.

Texts have `{key}` for the environment variable of the key, `{base}` for the base URL, and the names
of the other groups of `Sdk.url`, each as a literal of the language.
"""

from __future__ import annotations

import re

import msgspec


class SdkClient(msgspec.Struct, frozen=True):
    """A package of a registry, and how a program makes a client of it."""

    package: str
    imported: str
    made: str


class SdkClients(msgspec.Struct, frozen=True):
    """The clients of one company."""

    python: SdkClient
    node: SdkClient


class Sdk(msgspec.Struct, frozen=True):
    """How one kind of request is sent with the official SDKs: as it was recorded, whatever members
    its body has.
    """

    clients: SdkClients
    # of a request without its query; the group `base` is the client's base URL
    url: re.Pattern[str]
    methods: tuple[str, str]  # of a client, in Python and in JavaScript
    needed: tuple[str, ...]  # members of the body that Python's method wants as arguments
    given: tuple[str, str] = ("extra_body=BODY", "body")  # the last argument, in both languages
    streams: bool | None = None  # None: the body's `stream` says so
    query: str = ""  # which the method sends by itself
    headers: frozenset[str] = frozenset()  # in lower case, which decide what a body may have in it


OPENAI = SdkClients(
    SdkClient("openai", "from openai import OpenAI", "OpenAI(api_key={key}, base_url={base})"),
    SdkClient(
        "openai", 'import OpenAI from "openai";', "new OpenAI({{ apiKey: {key}, baseURL: {base} }})"
    ),
)
ANTHROPIC = SdkClients(
    SdkClient(
        "anthropic", "from anthropic import Anthropic", "Anthropic(api_key={key}, base_url={base})"
    ),
    SdkClient(
        "@anthropic-ai/sdk",
        'import Anthropic from "@anthropic-ai/sdk";',
        "new Anthropic({{ apiKey: {key}, baseURL: {base} }})",
    ),
)
_GOOGLE_PYTHON = (
    'genai.Client(api_key={key}, http_options={{"base_url": {base}, "api_version": {version}%s}})'
)
_GOOGLE_NODE = "new GoogleGenAI({{ apiKey: {key}, httpOptions: {{ baseUrl: {base}, apiVersion: {version}%s }} }})"


def _google(python: str = "", node: str = "") -> SdkClients:
    return SdkClients(
        SdkClient("google-genai", "from google import genai", _GOOGLE_PYTHON % python),
        SdkClient(
            "@google/genai", 'import { GoogleGenAI } from "@google/genai";', _GOOGLE_NODE % node
        ),
    )


GOOGLE = _google()
# As an option of one call it would be sent with an empty `generationConfig`.
GOOGLE_BODY = _google(', "extra_body": BODY', ", extraBody: body")
"""Clients that send this body, for methods which take a request apart."""
