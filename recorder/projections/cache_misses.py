"""The comparison of a prompt with those before it in its session: what the cache could have given,
and why it did not.

Rules of this file:

* Pure. `compared` gives a row the columns of its comparison; the store finds the rows that it is
  compared with.
* A request is compared with the earlier one of which it repeats the longest beginning, of equal
  ones the latest. Only one whose response had begun before counts: until then its prompt is in no
  cache.
* A change is claimed only between requests of one conversation, and only if both have something
  behind it: a request that merely begins like another one, as those of two sub-agents or of a
  question asked again, has changed nothing.
* A miss is a shortage of more than what `_allowed` gives: providers count in steps, and the tokens
  of a part of a prompt are an estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from recorder.model.text import shared_length
from recorder.projections.digests import (
    DIGEST_BYTES,
    NO_COMPARISON,
    SegmentPlace,
    format_of,
    head_of,
    inherited,
    marks_of,
    place_of,
    policy_of,
    size_of,
    sizes_until,
)
from recorder.projections.rows import CacheClass, PromptRow
from recorder.wire.dialects.prompt import segment_path

EXACT_SHARE, ESTIMATED_SHARE = 20, 5
"""The parts of the expected tokens that may be missing: a 20th of a count, for what a response adds
at its beginning; a 5th of an estimate, since bytes of JSON and of text make different numbers of
tokens."""

WINDOW = 64
"""Earlier exchanges with which a request is compared: agents run ten at once, and each of them asks
again within a few exchanges of the others. Their digests are 5 KB each, 80 KB at most."""

_S = 1_000_000_000
_PERSONS = (None, "turn")
_NOTHING_MISSED = ("hit", "first", "below_minimum")


class _EarlierPrompt:
    """An earlier request, and the segments with which both begin."""

    def __init__(
        self, new: PromptRow, row: PromptRow, common: int, common_bytes: int, *, is_whole: bool
    ) -> None:
        """`is_whole`: the new request begins with all of the earlier one, as far as it is known."""
        self._new, self.row = new, row
        self.common, self.common_bytes, self.is_whole = common, common_bytes, is_whole

    @cached_property
    def is_related(self) -> bool:
        """Return whether both are of one conversation: that takes longest, and mostly decides
        between few of them.
        """
        return self._new.continues or _is_related(self._new, self.row, self.common)


class _Verdict(NamedTuple):
    """What should have come by a comparison, and the class and path if it did not."""

    pair: _EarlierPrompt
    expected_tokens: int
    broken: CacheClass | None = None
    path: str | None = None


def compared(
    row: PromptRow, earlier: Sequence[PromptRow], parent: PromptRow | None = None
) -> PromptRow:
    """Return a row with its comparison.

    `earlier` are rows of its session in order, `parent` the one it continues.
    """
    # a prewarm of Codex may have nothing in its `input`
    if parent is not None and not parent.digests:
        return msgspec.structs.replace(
            compared(msgspec.structs.replace(row, continues=False), earlier), continues=True
        )
    if row.continues:
        row = inherited(row, parent)
    if row.served_ns is None or not row.digests:
        return _with(row)
    if row.continues:
        if parent is None or not _is_served(parent, row):
            return _with(row, cache_class="not_recorded")
        pairs = [_continued(row, parent)]
        return _judged(
            row,
            (_repeated_beginning if pairs[0].is_whole else _changed)(row, pairs[0], pairs),
            pairs,
        )
    until = sizes_until(row.digests)
    pairs = [_pair(row, each, until) for each in earlier if each.digests and _is_served(each, row)]
    pairs.sort(key=lambda each: (each.common_bytes, each.row.exchange_id), reverse=True)
    verdict = _found(row, [each for each in pairs if each.row.model == row.model])
    if verdict is None or not (verdict.pair.is_whole or verdict.pair.is_related):
        others = [each for each in pairs if each.row.model != row.model]
        pair = _best([each for each in others if each.is_whole or each.is_related])
        verdict = verdict if pair is None else _of_other_model(row, pair)
    return _judged(row, verdict, pairs)


def _is_served(earlier: PromptRow, row: PromptRow) -> bool:
    has_begun = earlier.served_ns is not None and earlier.served_ns <= row.started_ns
    return has_begun and (earlier.provider, earlier.api) == (row.provider, row.api)


# -- pairs


def _pair(row: PromptRow, earlier: PromptRow, until: Sequence[int]) -> _EarlierPrompt:
    """Return the pair of two requests; `until` has the size of so many segments of the new one."""
    common = _common(row.digests, earlier.digests)
    is_whole = common * DIGEST_BYTES == len(earlier.digests)
    return _EarlierPrompt(row, earlier, common, until[common], is_whole=is_whole)


def _continued(row: PromptRow, parent: PromptRow) -> _EarlierPrompt:
    """Return the pair of a request and the one that it continues: the conversation is the same by
    construction.
    """
    head, before = head_of(row), head_of(parent)
    common = _common(head, before)
    is_whole = head == before and row.model == parent.model
    common_bytes = parent.prompt_bytes if is_whole else size_of(head[: common * DIGEST_BYTES])
    return _EarlierPrompt(row, parent, common, common_bytes, is_whole=is_whole)


def _common(one: bytes, other: bytes) -> int:
    """Return the number of digests with which both begin."""
    return shared_length(one, other) // DIGEST_BYTES


def _is_related(row: PromptRow, earlier: PromptRow, common: int) -> bool:
    """Return whether two requests are of one conversation: they have one thread, or half the
    messages of one are in the other. A question that several system prompts get begins as many
    conversations: none goes on with an answer.
    """
    if (row.thread_id, row.purpose) != (earlier.thread_id, earlier.purpose):
        return False
    if row.thread_id is not None and row.purpose in _PERSONS:
        return True
    one, other = (each.digests[each.system_segments * DIGEST_BYTES :] for each in (row, earlier))
    has_other_system = common < min(row.system_segments, earlier.system_segments)
    if has_other_system and not Counter(_segments(one)) - Counter(_segments(other)):
        return False
    least = min(len(one), len(other)) // DIGEST_BYTES
    if least and 2 * _common(one, other) >= least:
        return True  # as in most pairs of a session: to count the segments takes ten times as long
    return 2 * len(_repeated(one, other)) >= least > 0


def _segments(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]


def _repeated(one: bytes, other: bytes) -> list[bytes]:
    """Return the segments that both have, wherever they stand."""
    segments, others = _segments(one), _segments(other)
    if set(segments).isdisjoint(others):
        # as in most pairs of a session of many conversations: to count takes three times as long
        return []
    shared = Counter(segments) & Counter(others)
    return list(shared.elements())


# -- what a pair means


def _found(row: PromptRow, pairs: Sequence[_EarlierPrompt]) -> _Verdict | None:
    """Return the verdict over the earlier requests to the same model, the longest beginnings first;
    None if nothing of them is repeated.
    """
    best = _best(pairs)
    if best is not None and best.is_whole:
        return _repeated_beginning(row, best, pairs)
    related = next((each for each in pairs if each.is_related), None)
    if related is not None:
        return _changed(row, related, pairs)
    return _repeated_beginning(row, best, pairs) if best is not None and best.common else None


def _best(pairs: Sequence[_EarlierPrompt]) -> _EarlierPrompt | None:
    """Return the first of those with the longest beginning that is of the conversation, or the
    first of all.
    """
    longest = (each for each in pairs if each.common_bytes == pairs[0].common_bytes)
    return next((each for each in longest if each.is_related), pairs[0] if pairs else None)


def _of_other_model(row: PromptRow, pair: _EarlierPrompt) -> _Verdict:
    return _Verdict(pair, _tokens(row, pair, _kept_bytes(row, pair)), "other_model", "model")


def _repeated_beginning(
    row: PromptRow, pair: _EarlierPrompt, pairs: Sequence[_EarlierPrompt]
) -> _Verdict:
    """Return the verdict on a request that begins as an earlier one, and then says something else
    or more.

    What ends at a mark is cached. Where an earlier request says something else, the marks of those
    before it count, too: its own may all be behind that place.
    """
    whole = _Verdict(pair, _tokens(row, pair, pair.common_bytes))
    if not policy_of(row).needs_marks:
        return whole
    marks = [at for at, _ in marks_of(pair.row)]
    if not pair.is_whole:
        marks = []
        for each in pairs:
            shared = min(each.common, pair.common)
            marks += [at for at, _ in marks_of(each.row) if at < shared]
    if not marks:
        return whole._replace(broken="not_marked")
    last = max(marks)
    size_bytes = (
        pair.common_bytes if row.continues else size_of(row.digests[: (last + 1) * DIGEST_BYTES])
    )
    marked = _Verdict(pair, _tokens(row, pair, size_bytes))
    if row.continues or any(
        last <= at < last + (policy_of(row).reach or 1) for at, _ in marks_of(row)
    ):
        return marked
    path = _path(pair.row, place_of(pair.row, last))
    return marked._replace(broken="not_marked", path=f"{path}.{format_of(row).marks[0]}")


def _changed(row: PromptRow, pair: _EarlierPrompt, pairs: Sequence[_EarlierPrompt]) -> _Verdict:
    """Return the verdict on a request of the same conversation that does not begin with all of the
    earlier one.
    """
    if row.model != pair.row.model:
        return _of_other_model(row, pair)
    kept_bytes = _kept_bytes(row, pair)
    place = _first_difference(row, pair)
    kind = format_of(row).parts[place.part].kind
    verdict = _Verdict(pair, _tokens(row, pair, kept_bytes), "prefix_changed", _path(row, place))
    is_message = kind == "conversation" and pair.common >= min(
        row.system_segments, pair.row.system_segments
    )
    is_shortened = is_message and _is_shortened(row, pair)
    # A summary is in the place of the history: the thread is the same, and nothing of it is left.
    is_compacted = is_shortened and row.thread_id is not None and pair.common <= row.system_segments
    if kept_bytes == pair.common_bytes and not is_compacted:
        return _repeated_beginning(row, pair, pairs)
    if policy_of(row).needs_marks and not marks_of(pair.row):
        return verdict._replace(broken="not_marked", path=None)
    if kind == "parameter":
        return verdict._replace(broken="other_parameters")
    return verdict._replace(broken="history_shortened") if is_shortened else verdict


def _kept_bytes(row: PromptRow, pair: _EarlierPrompt) -> int:
    """Return the bytes of the earlier prompt that the new one has, wherever they stand.

    A segment before the conversation that is in one of them only is the same with a change in it.
    """
    if row.continues:
        return pair.row.prompt_bytes
    after = pair.common * DIGEST_BYTES
    kept = pair.common_bytes + size_of(
        b"".join(_repeated(row.digests[after:], pair.row.digests[after:]))
    )
    heads = (each.digests[: each.system_segments * DIGEST_BYTES] for each in (row, pair.row))
    one, other = (Counter(_segments(each)) for each in heads)
    return kept + min(
        size_of(b"".join((one - other).elements())), size_of(b"".join((other - one).elements()))
    )


def _first_difference(row: PromptRow, pair: _EarlierPrompt) -> SegmentPlace:
    """Return the place of the first segment that differs: of two, the one that a request has first."""
    places = []
    for each in (row, pair.row):
        segments = each.head_segments if row.continues else len(each.digests) // DIGEST_BYTES
        if pair.common < segments:
            places.append(place_of(each, pair.common))
    return min(places)


def _path(row: PromptRow, place: SegmentPlace) -> str:
    path = segment_path(format_of(row), place.part, place.element, place.block)
    return f"{row.root}.{path}" if row.root else path


def _is_shortened(row: PromptRow, pair: _EarlierPrompt) -> bool:
    """Return whether items of the history are gone: what stands there now stood behind them, or
    less is there.
    """
    after = pair.common * DIGEST_BYTES
    one, other = _segments(row.digests[after:]), _segments(pair.row.digests[after:])
    # of those that both have
    first = next((number for number, each in enumerate(one) if each in other), None)
    return len(one) < len(other) if first is None else first < other.index(one[first])


# -- the row


def _tokens(row: PromptRow, pair: _EarlierPrompt, size_bytes: int) -> int:
    """Return the tokens of so many bytes of the earlier prompt: by its own count, else by that of
    the new one.
    """
    earlier = pair.row
    is_all = row.continues and size_bytes >= earlier.prompt_bytes
    if earlier.input_tokens and (is_all or not earlier.continues):
        whole = earlier.prompt_bytes or 1
        return min(size_bytes, whole) * earlier.input_tokens // whole
    whole = row.prompt_bytes + (earlier.prompt_bytes if row.continues else 0) or 1
    return min(size_bytes, whole) * (row.input_tokens or 0) // whole


def _judged(row: PromptRow, verdict: _Verdict | None, pairs: Sequence[_EarlierPrompt]) -> PromptRow:
    if verdict is None:
        return _with(row, cache_class="hit" if row.cached_tokens else "first")
    pair, earlier = verdict.pair, verdict.pair.row
    uses = [
        each.row.served_ns or 0
        for each in pairs
        if each.common >= pair.common and each.row.model == earlier.model
    ]
    since_ns = row.started_ns - max(uses)
    expected = min(verdict.expected_tokens, row.input_tokens or verdict.expected_tokens)
    is_exact = pair.is_whole and bool(earlier.input_tokens) and row.continues >= earlier.continues
    common = _tokens(row, pair, pair.common_bytes)
    is_count = is_exact and verdict.expected_tokens == common
    cache_class, path = _class(row, verdict, expected, since_ns, is_exact=is_count), verdict.path
    if cache_class == "provider_miss" and (suspect := _suspect(row, earlier)) is not None:
        cache_class, path = "other_parameters", suspect
    elif cache_class != verdict.broken:
        path = None
    missed = None if row.cached_tokens is None else max(0, expected - row.cached_tokens)
    return _with(
        row,
        cache_class=cache_class,
        previous_exchange_id=earlier.exchange_id,
        common_bytes=pair.common_bytes,
        could_tokens=min(common, row.input_tokens or common),
        missed_tokens=0 if cache_class in _NOTHING_MISSED else missed,
        is_estimate=not is_exact,
        since_use_ns=since_ns,
        path=path,
    )


def _class(
    row: PromptRow, verdict: _Verdict, expected: int, since_ns: int, *, is_exact: bool
) -> CacheClass:
    minimum, is_new = (
        policy_of(row).minimum(row.model),
        not (verdict.pair.is_whole or verdict.pair.is_related),
    )
    if is_new and expected < minimum:
        return "hit" if row.cached_tokens else "first"
    if row.cached_tokens is None:
        return "not_reported"
    is_compacted = (
        verdict.broken == "history_shortened"
        and _kept_bytes(row, verdict.pair) == verdict.pair.common_bytes
    )
    has_come = expected - row.cached_tokens <= _allowed(row, verdict, expected, is_exact=is_exact)
    if has_come and not is_compacted and (row.cached_tokens or expected >= minimum):
        return "hit"
    if expected < minimum and not is_compacted:
        return "below_minimum"
    least_ns, most_ns = _lapses_ns(row, verdict.pair)
    common = _tokens(row, verdict.pair, verdict.pair.common_bytes)
    is_all_gone = not row.cached_tokens and common >= minimum  # what stands before a change, too
    if since_ns > (least_ns if verdict.broken is None or is_all_gone else most_ns):
        return "lapsed"
    return verdict.broken or "provider_miss"


def _allowed(row: PromptRow, verdict: _Verdict, expected: int, *, is_exact: bool) -> int:
    """Return the number of expected tokens that may be missing.

    Behind a change that is known nothing can come.
    """
    step = policy_of(row).step_tokens
    if verdict.broken:
        return step
    interval = 2 * step  # if nothing came, no prefix was found
    if row.cached_tokens:
        interval = policy_of(row).interval(row.model)
    return max(interval, expected // (EXACT_SHARE if is_exact else ESTIMATED_SHARE))


def _lapses_ns(row: PromptRow, pair: _EarlierPrompt) -> tuple[int, int]:
    """Return the times without use after which the prompt may be gone from the cache, and after
    which it is.
    """
    earlier = pair.row
    policy = policy_of(earlier)
    marked_s = _marked_s(row, pair) if policy.needs_marks else 0
    least_s, most_s = (
        (marked_s, marked_s) if marked_s else policy.lapses(earlier.model, earlier.retention)
    )
    return least_s * _S, most_s * _S


def _marked_s(row: PromptRow, pair: _EarlierPrompt) -> int:
    """Return for how long the earlier request marked what did not come; 0 if it has no marks.

    Agents keep tools and system for an hour, and messages for five minutes.
    """
    marks, until = marks_of(pair.row), sizes_until(pair.row.digests)
    missing = []
    for number, (at, mark_s) in enumerate(marks):
        marked = _tokens(row, pair, until[at + 1])
        has_come = row.cached_tokens and (
            number == 0 or row.cached_tokens >= marked - marked // ESTIMATED_SHARE
        )
        if row.continues or not has_come:
            missing.append(mark_s)
    return max(missing, default=marks[-1][1] if marks else 0)


def _suspect(row: PromptRow, earlier: PromptRow) -> str | None:
    """Return the first parameter that differs, of those that may invalidate a cache."""
    one, other = msgspec.json.decode(row.suspects), msgspec.json.decode(earlier.suspects)
    return next((path for path in (*one, *other) if one.get(path) != other.get(path)), None)


def _with(row: PromptRow, **found: Any) -> PromptRow:
    return msgspec.structs.replace(row, **{**NO_COMPARISON, **found})
