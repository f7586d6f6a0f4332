"""The meaning of the columns of the views that their names do not make clear.

A name means the same in every view; the key `view.column` has the meaning of a column that differs
in one view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.projections.views.parts import View, written

MEANINGS: Mapping[str, str] = {
    "session_id": "UUIDv7",
    "session_name": "as given by the client, or found in its requests",
    "exchange_id": "UUIDv7: one request with its response",
    # items
    "item": "0, 1, 2 … in order of appearance in the response",
    "output_index": "the place that the provider gives it; for Chat the choice, for Gemini the candidate",
    "item_id": "the provider's id of the item",
    "type": "the provider's type",
    "role": "mostly `assistant`",
    "phase": "`commentary` or `final_answer`, if the provider reports it",
    "status": "in the provider's word: `completed`, `incomplete`, `in_progress` if it never ended, …",
    "text": "the text; of reasoning, the raw text",
    "refusal": "the text of a refusal, if the model refuses",
    "annotations": "a JSON array: citations, files",
    "logprobs": "a JSON array",
    "began_ns": "time since the exchange began",
    "ended_ns": "time since the exchange began; `NULL` if the item did not end",
    "summary": "a JSON array of the parts of the summary",
    "summary_text": "the parts of the summary, with blank lines between them",
    "encrypted": "1 if there was reasoning that only the provider can read",
    "name": "name of the tool",
    "call_id": "the id under which the result is sent; `NULL` for Gemini and most tools of the provider",
    "arguments": "as sent, JSON or not, whole or cut off",
    "arguments_json": "`arguments` if they are valid JSON, else `NULL`: `json_extract` accepts it",
    "output": "the result: text, or JSON; images by size and digest; `NULL` if there is no result",
    "failed": "1 if the result is marked as an error, or is a JSON object that says so: `isError`, `is_error`, "
    "`exit_code`, `success`, or `error` as its first member; `NULL` if it has no such mark",
    "output_exchange_id": "the exchange whose request has the result; `NULL` if the provider's own tool gave it",
    "latency_ns": "time from the end of the call to the request with its result; of the provider's own tools, "
    "their duration",
    "other_items.name": "name of the tool, if the item is about one",
    "other_items.output": "the other content of the item: text, or JSON",
    "step": "0, 1, 2 … in order of appearance in the response",
    "tool_phases.type": "type of the item, in the provider's word: `web_search_call`, `image_generation_call`, …",
    "tool_phases.phase": "in the provider's word: `in_progress`, `searching`, `generating`, `partial_image`, …",
    "tool_phases.detail": "JSON: number, size and digest of a partial image",
    "tool_phases.ended_ns": "time at which the next step of the item began; `NULL` for the last step",
    "tool_phases.duration_ns": "duration of the step; `NULL` for the last step",
    # exchanges
    "started_ns": "wall time, since 1970",
    "provider": "the upstream's name",
    "api": "the wire format: `openai-responses`, `openai-chat`, `anthropic`, `gemini`, `other`",
    "client": "the program that sent the request, by its user agent",
    "method": "of HTTP, or `WEBSOCKET` of a request on a WebSocket connection",
    "target": "path and query, secrets redacted",
    **dict.fromkeys(
        (
            "messages.thread_id",
            "reasoning.thread_id",
            "tool_calls.thread_id",
            "other_items.thread_id",
        ),
        "id of the sub-agent that it is of, in a stream of a hosted agent",
    ),
    "thread_id": "the client's id of the thread",
    "turn_id": "the client's id of the turn",
    "attempt": "the client's count of its retries",
    "purpose": "purpose of the request: `turn`, `subagent`, `title`, `router`, `compaction`, `memory`, "
    "`prewarm`, `probe`, "
    "`helper`; `NULL` if it is unknown",
    "parent_thread_id": "the client's id of the thread that began this one",
    "owner": "whose token the request showed",
    "team": "the team of that token",
    "tags": "a JSON array: the tags of that token, and those of the header `X-Recorder-Tags`",
    "content": "what is kept of texts: `shape`, `none` (both are filler); `NULL`: all",
    "stream": "1 if the client requested a stream",
    "request_model": "the model in the request",
    "response_model": "the model in the response",
    "model": "`response_model`, else `request_model`",
    "response_id": "the provider's id of the response",
    "exchange_summary.status": "how the exchange ended, as in `docs/log.md`: the worst of what the connection, the "
    "last event and the response say; `NULL` while it is open",
    "finish_reason": "in the provider's word",
    "error_type": "the provider's type of the error",
    "error_code": "the provider's code of the error",
    "error_param": "the part of the request that is wrong, in the provider's word",
    "error": "the provider's message, else the fault of the connection; `NULL` where `status` is `completed` or "
    "`incomplete`",
    "user_text": "the last text of a person in the request, cut to a title",
    "is_turn": "1 if the request ends with `user_text`; 0 if it continues a turn",
    "previous_response_id": "of the response that it continues: the items before it are not in the request",
    "conversation_id": "of the conversation that the provider keeps, and that it continues",
    "previous_exchange_id": "the exchange that it continues; `NULL` if there is none, or the session does not have it",
    "depth": "number of exchanges that it continues, one behind the other",
    "is_complete": "0 if a link leads to nothing in the session, or to a conversation, which may have had other items",
    "input_items": "number of messages and other items in the request itself",
    "logical_items": "number of items in the request itself, and before it, as far as they are known",
    "is_prewarm": "1 if it only fills the provider's cache: nothing is to be generated",
    # parameters of a request; `NULL`: the request does not have it
    "reasoning_effort": "requested effort, in the provider's word, of Gemini in lower case: `none`, `low`, `high`, …",
    "reasoning_mode": "in the provider's word: `enabled`, `disabled`, `adaptive`, `pro`, …",
    "reasoning_summary": "requested summary of reasoning, in the provider's word: `auto`, `detailed`, `omitted`, …; of "
    "Gemini `true` or `false`",
    "reasoning_budget_tokens": "tokens that reasoning may take; of Gemini 0 is none, -1 as many as the model likes",
    "verbosity": "`low`, `medium`, `high`",
    "max_output_tokens": "tokens that the response may have",
    "service_tier": "requested service tier, in the provider's word: `auto`, `default`, `flex`, `priority`, …",
    "response_service_tier": "service tier by the response, the last one if it changes; `NULL` if it has none",
    "store": "1 if the provider is to keep the response",
    "response_format": "`text`, `json_object`, `json_schema`, or another word of the provider",
    "response_schema": "name or title of the JSON schema of the response",
    "tool_choice": "`auto`, `none`, `required`, `any`, …, or the name of the tool that must be called",
    "parallel_tool_calls": "1 if several tools may be called at once",
    "requests.tools": "number of tools offered",
    "tool_names": "a JSON array: the names of the tools offered, in order; the type of a provider's tool without a "
    "name; `namespace.name` of a tool in a namespace",
    "input_messages": "number of messages in the request that have a text, a picture or a file",
    "input_tool_calls": "number of tool calls in the request, sent back",
    "input_tool_results": "number of results of tools in the request",
    "input_reasoning": "number of pieces of reasoning in the request, sent back",
    "input_other": "number of other items in the request",
    "new_user_text": "the last text of a person, whole, if the request ends with it",
    "system_bytes": "size in UTF-8 of the system's texts that stand in the request itself, before all messages",
    "system_digest": "the same for the same texts; `NULL` if there are none",
    "tools_bytes": "size of the tools as JSON without spaces",
    "tools_digest": "the same for the same tools in the same order, whatever cache marks they have; `NULL` if there "
    "are none",
    "prompt_cache_key": "of OpenAI; of Gemini the name of the cached content",
    "prompt_cache_retention": "requested life time of the cache: `5m`, `1h`, `24h`, `in_memory`, …; of several marks "
    "that of the first that has one",
    "cache_markers": "number of marks up to which the prompt is to be cached (`cache_control`, "
    "`prompt_cache_breakpoint`)",
    "request_digest": "the same if the same is requested again; whether it is streamed, and who requests it, does not "
    "count",
    "reasoning_by_effort.exchanges": "number of exchanges at this effort",
    "ttft_avg_ns": "average of `ttft_ns`, of the exchanges that have it",
    "duration_avg_ns": "average of `duration_ns`",
    "superseded_by": "the exchange that has most of the same response, if it is another one; sums count only that one",
    "lossless": "1 if every byte of the response is in the log",
    "messages": "number of messages",
    "reasoning": "number of pieces of reasoning",
    "tool_calls": "number of tool calls",
    "anomalies": "number of anomalies, each a kind and a place: see the view `anomalies`",
    # tokens
    "input_tokens": "cached tokens included",
    "cache_read_input_tokens": "part of `input_tokens`: read from the provider's cache",
    "cache_write_input_tokens": "part of `input_tokens`: written to the provider's cache",
    "output_tokens": "reasoning included",
    "reasoning_output_tokens": "part of `output_tokens`: spent on reasoning",
    "usage_raw": "the JSON of the provider's report",
    "partial": "1 if the stream broke off or still runs, so that the real count may be higher",
    "generates": "1 if the exchange asks for an answer; 0 for a probe, a prewarm and a connection, which the views "
    "`latency_by_model` and `latency_by_day` leave out",
    "cache_write_1h_input_tokens": "part of `cache_write_input_tokens`: kept for an hour, not for five minutes",
    "input_audio_tokens": "part of `input_tokens`",
    "cache_read_input_audio_tokens": "part of `input_audio_tokens` and of `cache_read_input_tokens`",
    "input_image_tokens": "part of `input_tokens`; of Gemini, those of documents too",
    "input_video_tokens": "part of `input_tokens`",
    "output_audio_tokens": "part of `output_tokens`",
    "output_image_tokens": "part of `output_tokens`",
    "output_video_tokens": "part of `output_tokens`",
    "output_citation_tokens": "part of `output_tokens`: of citations, which Perplexity counts apart",
    "web_searches": "number of web searches that the provider charges for, if the report has it; "
    "OpenAI and Gemini do not report it",
    "reported_cost_usd": "the cost that the provider or a gateway reports itself, as decimal text; see `docs/cost.md`",
    "reported_cost_source": "where that was: `usage.cost`, `usage.cost_in_usd_ticks`, `usage.cost.total_cost`, "
    "`x-litellm-response-cost`",
    "inference_geo": "the region in which the model ran, in the provider's word",
    "billed_input_tokens": "`input_tokens`, the size of the context, together with the input of compactions and "
    "advisors",
    "billed_output_tokens": "`output_tokens` together with those of compactions and advisors",
    "day": "date in UTC, `YYYY-MM-DD`",
    "reported": "number of exchanges that reported any tokens",
    "reasoning_share": "`reasoning_output_tokens` / `output_tokens`, of the exchanges that report both: 0.0 to 1.0",
    "cached_share": "`cache_read_input_tokens` / `input_tokens`, of the exchanges that report both: 0.0 to 1.0",
    # costs
    "price_model": "the pattern of `prices` that matches `model`: `%` any text, `#` a digit",
    "price_source": "`genai-prices`, or `prices.toml` for a price of one's own",
    "price_tier": "the tier of service whose price it is: `flex`, `priority`, …; empty for the standard one",
    "uncached_input_tokens": "`input_tokens` that were neither read from the cache nor written to it",
    "input_picousd": "cost of the uncached input, in picodollars (10^-12 USD); `NULL` if the cost is unknown",
    "cache_read_picousd": "cost of the input that was read from the cache",
    "cache_write_picousd": "cost of the input that was written to the cache",
    "output_picousd": "cost of the output without reasoning",
    "reasoning_picousd": "cost of the reasoning; at the price of output if it has no price of its own",
    "other_picousd": "cost of web searches, and of the request itself where it has a price",
    "cost_picousd": "the whole cost: an exact number, 10^-12 USD",
    "uncached_token_picousd": "what a token of input cost more than one that comes from the cache: 10^-12 USD",
    "cost_usd": "`cost_picousd` in USD, rounded to what a float can be; for reading, not for sums",
    "no_price": "the reason why the cost is `NULL`: nothing was reported (`usage`), a `subscription`, no price for the "
    "`provider` or the `model`, or `counts` that contradict each other",
    # sessions
    "created_ns": "wall time, since 1970",
    "origin": "`live`, `import` or `synthetic`",
    "source": "the rule that found the session's name; `history`: by the messages that its requests repeat; "
    "`probe`: its "
    "requests only query what a server offers; `new`: no rule found one",
    "title": "the first `user_text` of a turn, else of any exchange, else the beginning of the first message",
    "session_summary.started_ns": "wall time of the first request",
    "session_summary.ended_ns": "wall time at which the last exchange ended",
    "session_summary.duration_ns": "time from the first request to the last end",
    "answers": "number of exchanges that ask for an answer: not connections, prewarms and probes",
    "turns": "number of turns, in exchanges whose `purpose` is `turn`: distinct `turn_id`s, and without one the "
    "exchanges "
    "with `is_turn`",
    "threads": "number of distinct `thread_id`s",
    "models": "names, each once, separated by commas",
    "tools": "names, each once, separated by commas",
    "clients": "names, each once, separated by commas",
    "errors": "number of exchanges with an error, or with an end other than `completed` and `incomplete`; "
    "exchanges of no "
    "turn that the client broke off do not count",
    # times
    "head_ns": "time to the response head",
    "first_byte_ns": "time to the first read of the body",
    "ttft_ns": "time to the first token: of reasoning, text or arguments, whichever came first",
    "first_arguments_ns": "time to the first arguments of a tool call",
    "duration_ns": "time to the end of the exchange",
    "longest_silence_ns": "longest time between two events",
    "stalls": "number of silences over two seconds",
    "bytes": "number of bytes of the decoded body",
    "events_per_s": "from the first event to the last; `NULL` for a document",
    "gap_p50_ns": "median of the gaps between events",
    "retries.status": "how the retry ended",
    "retried_exchange_id": "the attempt before: the last exchange with the same request",
    "first_exchange_id": "the first attempt",
    "attempt_number": "2 for the first retry, 3 for the next, …",
    "retried_status": "how the attempt before ended",
    "retried_http_status": "of the attempt before",
    "retried_error_type": "of the attempt before, in the provider's word",
    "retried_error": "of the attempt before: the provider's message, else the fault of the connection",
    "waited_ns": "time from the end of the attempt before to the retry; less than 0 if that had not ended",
    "wasted_ns": "duration of the attempt before",
    **{
        f"wasted_{name}": f"`{name}` of the attempt before"
        for name in (
            "input_tokens",
            "cache_read_input_tokens",
            "cache_write_input_tokens",
            "output_tokens",
        )
    },
    "wasted_reasoning_output_tokens": "`reasoning_output_tokens` of the attempt before",
    "wasted_total_tokens": "`total_tokens` of the attempt before; `NULL` if it reported none",
    "wasted_cost_picousd": "cost of the attempt before: 10^-12 USD; `NULL` without a price, or without usage",
    "wasted_cost_usd": "`wasted_cost_picousd` in USD, for reading",
    "measured": "number of exchanges with a first token",
    "ttft_p50_ns": "median of `ttft_ns`; a percentile is a measured value, by nearest rank",
    "ttft_p90_ns": "90 % of `ttft_ns` are at most this",
    "ttft_p99_ns": "99 % of `ttft_ns` are at most this",
    "duration_p50_ns": "median of `duration_ns`",
    "duration_p90_ns": "90 % of `duration_ns` are at most this",
    "duration_p99_ns": "99 % of `duration_ns` are at most this",
    "silence_p50_ns": "median of `longest_silence_ns`",
    "silence_p90_ns": "90 % of `longest_silence_ns` are at most this",
    "silence_p99_ns": "99 % of `longest_silence_ns` are at most this",
    "pos": "the event's position in the exchange",
    "t_ns": "time since the exchange began",
    "gap_ns": "time since the previous event; `NULL` for the first",
    # prompt cache
    "class": "why: `lapsed`, `prefix_changed`, `history_shortened`, `other_model`, `other_parameters`, "
    "`below_minimum`, `not_marked`, `not_reported`, `not_recorded`, `provider_miss`",
    "is_avoidable": "1 if a client could have avoided it: `prefix_changed`, `other_parameters`, `not_marked`",
    "could_tokens": "tokens of the beginning that the request shares with `previous_exchange_id`",
    "cached_tokens": "tokens that came from the cache; `NULL` if the provider reports no such count",
    "missed_tokens": "tokens that would have come too, had nothing changed and nothing lapsed",
    "is_estimate": "1 if `could_tokens` is computed from bytes; 0 if it is the provider's count of the earlier request",
    "since_use_ns": "time since a response to a request with that beginning began",
    "path": "the JSON path of the first segment that differs: a tool, a block, a message, a parameter",
    "cache_misses.model": "the model that the request names",
    "cache_misses.previous_exchange_id": "the earlier exchange of the session that it is compared with",
    "common_bytes": "bytes of JSON with which both requests begin; a picture or file in base64 counts as 4,000",
    "prompt_bytes": "bytes of JSON of the prompt: of tools, system and messages in the request itself",
    # tools, anomalies, events
    "calls": "number of calls",
    "answered": "number of calls that have an `output`",
    "tool_stats.failed": "number of calls whose result is marked as an error",
    "sessions": "number of sessions with such a call",
    "tool_stats.exchanges": "number of exchanges with such a call",
    "arguments_bytes": "sum over all calls",
    "anomaly": "0, 1, 2 … in order of appearance",
    "kind": "kind of the anomaly: `sequence_gap`, `delta_mismatch`, `unknown_type`, `malformed`, `unread`, "
    "`unreadable`, `missing_terminal`, …",
    "anomalies.pos": "the first event that shows the anomaly",
    "count": "number of events that show the anomaly",
    "detail": "subject of the anomaly; in brackets, the size of content that no view has because of it",
    "payload": "the text after `data:`",
}


def meaning(view: str, column: str) -> str:
    """Return the meaning of a view's column; empty if its name makes it clear."""
    return MEANINGS.get(f"{view}.{column}") or MEANINGS.get(column, "")


def described(view: View, engine: str) -> dict[str, Any]:
    """Return a view with the meaning of its columns, and the example for its engine."""
    columns = [{"name": name, "meaning": meaning(view.name, name)} for name in view.columns]
    return {
        "view": view.name,
        "row": view.row,
        "columns": columns,
        "example": written(view.example, engine),
    }
