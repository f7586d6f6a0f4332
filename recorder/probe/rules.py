"""The rules of a probe: what an answer must be beyond its protocol, who breaks if it is not. Data.

`recorder.lint` judges the form of a stream, whatever was requested. These rules know what was
requested, and judge documents too. `make docs` makes a page of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.lint.rule import RuleTexts, rule_texts

_TEXT = """\
PR001 error
There is no answer: the connection was refused, or ended before the response.
Every SDK raises an APIConnectionError, after two retries that fail in the same way.
RFC 9112, 9.3 Persistence

PR002 error
The gateway fell silent: nothing came for as long as the probe waits.
The official SDKs wait for ten minutes: an agent hangs, and its user stops it.
openai-python 3.52, _constants.py: DEFAULT_TIMEOUT

PR003 error
The answer does not end, or is far larger than the request allows.
A client that collects the answer runs out of memory, and one that shows it never comes to an end.
docs/probe.md, Limits

PR004 error
The answer broke off before its end.
The SDKs raise an APIConnectionError in the middle of the answer, and do not retry there: an agent
 loses it.
RFC 9112, 8 Handling Incomplete Messages

PR010 error
A request that the API accepts was refused.
All clients of the API: the SDKs raise an APIStatusError.
the reference of the API

PR011 error
A stream was requested, and the answer is not an event stream.
The SDKs read it as a stream, yield no event and raise no error: the answer is empty.
the reference of the API: streaming; WHATWG HTML, 9.2 Server-sent events

PR012 error
No stream was requested, and the answer is an event stream.
The SDKs return the text of the stream in place of an object: `'str' object has no attribute
 'choices'`.
the reference of the API

PR013 error
The answer to a request without a stream is not a JSON object with the content type
 `application/json`.
openai-python returns the body as text, anthropic too; google-genai raises a JSONDecodeError.
the reference of the API; openai-python 3.52, _response.py

PR014 error
A field of the answer is missing, or has another type than the API declares.
The SDKs do not check: they return the value as it is, and a client fails where it uses it (`None`
 has no attribute `content`, `KeyError`). Clients with checked types (Rust, Go, Java) refuse the
 whole answer.
openai-python 3.52, anthropic 2.11, google-genai 3.6: types

PR015 error
The reason to finish is not the one that the API has for this end.
Agents go by it: without `tool_calls`, `tool_use` they do not run the tools, without `length`,
 `max_tokens` they treat a cut answer as complete, and LangChain and the Vercel AI SDK report an
 unknown reason.
the reference of the API

PR016 warning
The answer does not name the model that gave it.
Costs cannot be counted, and logs and evaluations by model have none: a fallback of the gateway
 stays unseen.
the reference of the API

PR020 error
The answer has no text.
`output_text`, `message.content` and the like are empty, and an agent shows an empty answer.
the reference of the API

PR021 warning
The text of a stream comes in a single delta.
Nothing appears until everything is there: a user waits in front of an empty screen, and a reader
 that measures the time to the first token measures the time to the last one.
the reference of the API

PR022 warning
All events of a stream arrive at once at its end.
A proxy or the gateway buffers: users wait for the whole answer, and proxies cut a connection that
 is silent.
nginx, proxy_buffering

PR030 warning
The answer does not report its tokens.
Costs, budgets and the compaction of a conversation count nothing: Codex and Claude Code show 0
 tokens.
the reference of the API: usage

PR031 warning
A count of tokens is zero although there is a prompt and an answer, or the total is not the sum.
Costs and budgets are too low, and an agent that compacts by them runs into the limit of the
 context.
the reference of the API: usage

PR032 error
More output tokens are reported than the request allows.
Either the limit is not kept, or counts are added that are cumulative: costs are several times too
 high.
the reference of the API: usage; max tokens

PR033 warning
Streamed and not, the same request has different counts of input tokens.
Costs depend on how an answer was requested: one of the two is wrong, mostly a sum over events.
the reference of the API: usage

PR034 warning
A chunk with the usage comes although it was not requested.
It has no choices: `chunk.choices[0]`, as it stands in every example, raises an IndexError.
OpenAI API reference, Chat Completions: stream_options.include_usage

PR040 error
The model was asked to use a tool, and called none.
The tools, or the calls, are lost on the way: an agent answers from memory, or says that it has no
 tools.
the reference of the API: tools

PR041 warning
Two calls at once were asked for, and fewer came.
Parallel calls are lost or merged: an agent needs a further turn for each, or misses a part of the
 work.
the reference of the API: parallel tool use

PR042 error
The arguments of a call are not a JSON object that fits the schema of the tool.
`json.loads(arguments)` raises a JSONDecodeError, or a tool is called without what it needs.
the reference of the API: tools

PR043 error
The arguments of a call are JSON in JSON: encoded twice.
`json.loads(arguments)` gives a string: agents call the tool with a text in place of its arguments.
the reference of the API: tools

PR044 error
A call has no id, or two calls have the same.
The result of a call is sent with its id: it is refused, or taken for that of the other call.
the reference of the API: tools

PR045 error
A tool was called that the request does not offer.
Agents report an unknown tool, and many end their turn with it.
the reference of the API: tools

PR050 error
The request demands the call of one tool (`tool_choice`), and the answer is not that call.
Routers and extractors (LangChain `with_structured_output`, Instructor) find no call, and raise.
the reference of the API: tool_choice

PR060 error
The answer is not JSON, although the request has a schema for it.
`.parse()` of the SDKs raises a ValidationError: JSON was promised.
the reference of the API: structured outputs

PR061 error
The answer is JSON, but does not fit the schema of the request.
`.parse()` of the SDKs raises a ValidationError: the schema is strict, and fields are missing or of
 another type.
the reference of the API: structured outputs

PR070 error
The limit on output tokens is not kept.
Costs have no bound, and an agent that leaves room for its next turn finds none.
the reference of the API: max tokens

PR080 error
A request that makes no sense was accepted.
Mistakes of a client stay unseen: what it asked for is replaced by something else.
the reference of the API: errors

PR081 error
A request that makes no sense is answered as a failure of the server, or with an unusual status.
The SDKs repeat what failed with 5xx, 408, 409 and 429, which cannot help; others raise another
 exception than the BadRequestError that a client expects.
the reference of the API: errors; openai-python 3.52, _base_client.py: _should_retry

PR082 error
An error is not a JSON document in the format of the API.
The SDKs raise an APIStatusError whose `code` and `type` are None, or show a page of HTML as its
 message.
the reference of the API: errors

PR090 error
A wrong key was accepted.
Anyone who reaches the gateway uses its account, and a client with a mistyped key bills another one.
the reference of the API: authentication

PR091 error
A wrong key is not refused with the status that the API has for that.
Clients ask for a new key, or log in again, at 401 (and 403): with another status they repeat the
 request, or blame the model.
the reference of the API: errors

PR100 error
A resumed stream does not go on after `starting_after`: it repeats events, or leaves some out.
Texts appear twice, or with a hole: openai-python adds what it is sent to what it has.
OpenAI API reference, Responses: Get a model response, starting_after

PR101 error
The text of a stream and its resumption, joined, is not that of the finished response.
A client that was cut off shows another answer than the provider keeps.
OpenAI API reference, Responses: background mode

PR102 error
A resumed stream belongs to another response.
A client that was cut off goes on with the answer to somebody else.
OpenAI API reference, Responses: Get a model response

PR110 error
There are fewer choices than the request asks for with `n`.
`completion.choices[1]` raises an IndexError; evaluations count too few samples.
OpenAI API reference, Chat Completions: n

PR120 warning
Reasoning was requested, and the answer neither shows nor counts any.
The parameter is lost on the way, or the reasoning is: answers are worse or cost more than they
 show, and agents that send reasoning back (Codex, Claude Code) lose their thread. A model that does
 not reason is to be left out with --only.
the reference of the API: reasoning

PR121 warning
Reasoning is counted, but not shown, although the request asks to see it.
Agents that send reasoning back with the results of tools (Codex, Claude Code) lose their thread,
 and with Anthropic's API the next request is refused.
the reference of the API: reasoning

PR122 error
Reasoning stands in the text of the answer, in tags such as `<think>`.
Users read what was not meant for them, a schema is broken, and the next request sends it back as an
 answer.
the reference of the API: reasoning

PR123 error
A block of thinking has no signature.
The API refuses the next request, which sends it back with the results of tools: Claude Code and
 every agent that thinks between calls ends there.
Anthropic API reference, Messages: thinking, signature

PR150 error
The official SDK cannot read the answer.
Every client that is built on this SDK fails in the same way.
openai-python, anthropic and google-genai, as installed

PR151 error
The official SDK reads another answer than was sent.
Clients that are built on this SDK show or do something else than those that read the events
 themselves.
openai-python, anthropic and google-genai, as installed
"""

RULES = tuple(rule_texts(_TEXT))

BY_ID: Mapping[str, RuleTexts] = {rule.id: rule for rule in RULES}
