"""The trace of one conversation or job, with the labels of its content. It finds the provenance of values."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wasmrt.agent.flows._addresses import Form, find_addresses
from wasmrt.agent.flows._destinations import Destination, Kind, Outgoing, carries_text, list_action_words
from wasmrt.agent.flows._forms import parse_number
from wasmrt.agent.flows._ids import Ids, OwnIds, iter_members
from wasmrt.agent.flows._known import (
    complete_values,
    flow_texts,
    known_mark,
    known_marks,
    matches_pattern,
    normalize_value,
)
from wasmrt.agent.flows._labels import Provenance, read_labels
from wasmrt.agent.flows._private import Marks, PrivateText
from wasmrt.agent.flows._untrusted_text import Origin, UntrustedText, find_inner_values
from wasmrt.agent.flows._user_text import UserText
from wasmrt.core.labels import Label
from wasmrt.core.limits import MAX_FLOW_BYTES, MAX_FLOW_SAID_BYTES, MAX_FLOW_VALUES

_KINDS = {Form.WEB: Kind.URL, Form.FILE: Kind.URL, Form.SPLIT: Kind.URL, Form.MAIL: Kind.ADDRESS, Form.CODE: Kind.NAME}


@dataclass(frozen=True, slots=True)
class Traced:
    """A destination with its provenance."""

    destination: Destination
    provenance: Provenance

    @property
    def is_hidden(self) -> bool:
        """True for a path with a hidden or an unknown folder: `.ssh/config`, `~/x`, `../x`."""
        value = self.destination.value
        if self.destination.kind not in (Kind.PATH, Kind.NAME) or not isinstance(value, str):
            return False
        parts = [part for part in re.split(r"[/\\]", value.strip()) if part not in ("", ".")]
        return any(part[0] in ".~$%" for part in parts)

    @property
    def named(self) -> str:
        """The destination as text, such as `to = eve@example.com`."""
        return f"{self.destination.param} = {self.destination.value}"


@dataclass(frozen=True, slots=True)
class Flow:
    """The data flow of a call: the labels of its trace, its destinations and its content."""

    labels: frozenset[Label]
    destinations: tuple[Traced, ...]
    controls: tuple[Traced, ...] = ()
    """The short values that are neither destinations nor content."""
    carried: tuple[Traced, ...] = ()
    """Links and addresses inside the content."""
    stated: bool = False
    """True if the user named every destination, and the action with the words of the tool's name."""
    private_body: bool = False
    """True if the content includes private text that was not shown when its destinations were approved."""
    private_marks: frozenset[bytes] = frozenset()
    """The parts of private text in the content."""
    guessed_all: bool = False
    cut: bool = False


def _never(_: object) -> bool:
    return False


class FlowTrace:
    """The content of one trace, and its labels. Thread-safe.

    SECURITY: only `clear` removes content. If content exceeds the limits, values that are not found are treated as
    untrusted, so that more calls require approval.
    """

    def __init__(self, *, automation: bool = False, limit: int = MAX_FLOW_BYTES) -> None:
        self.automation = automation
        """True for a job without a user who could approve calls: calls that would require approval are denied."""
        self._limit = limit
        self._lock = threading.RLock()
        self._labels: frozenset[Label] = frozenset()
        self._user_text, self._known = UserText(), Marks()
        self._untrusted, self._private = UntrustedText(limit), PrivateText(limit)
        self._ids, self._own_ids = Ids(), OwnIds()
        self._approved: set[tuple[str, str]] = set()
        """Pairs of a tool and a destination that was approved for this tool."""
        self._read: frozenset[Label] = frozenset()
        """The labels of content that was read, without results of calls that changed something."""
        self._shown = Marks()
        """Parts of private text that were shown when a destination was approved, each with tool and destination."""

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of the content recorded so far."""
        return self._labels

    @property
    def size(self) -> int:
        """The stored size in bytes."""
        return self._untrusted.size + self._private.size

    def user_said(self, text: str) -> None:
        """Record a message of the user. Destinations that the message names need no approval."""
        with self._lock:
            self._labels |= {Label.TRUSTED}
            self._user_text.add(text)

    def saw(
        self,
        result: Any,
        labels: Iterable[Label | str],
        *,
        tool: str = "",
        call: str = "",
        ids: Sequence[str] = (),
        vouched: Sequence[str] = (),
        asked: Any = None,
        computed: bool = False,
        lapses: bool = True,
    ) -> None:
        """Record the result of a call, or other text that the model reads, with its labels.

        `ids` are the names of parameters, of this or any other tool, that accept identifiers from this result.
        `vouched` are the names of object members in the result that the operator trusts, because only the service
        itself writes them. `asked` are the params of the call that returned the result. If `computed` is true, the
        result follows from these params, and none of its other values is known. If `lapses` is true, and the
        result is private or untrusted and the trace had no such content before, earlier approvals no longer apply.
        """
        given = read_labels(labels)
        text = "\n".join(flow_texts(result))
        with self._lock:
            if lapses and not given - {Label.TRUSTED} <= self._read:
                self._approved.clear()
                self._read |= given
            self._labels |= given
            if Label.PRIVATE in given:
                self._own_ids.add(result)
            if Label.UNTRUSTED in given:
                self._own_ids.add_mentioned(tuple(flow_texts(result)))
                self._untrusted.add(text, tool, call)
            elif given and not computed:
                self._record_trusted(complete_values(result), asked)
            if vouched:
                self._record_trusted(iter_members(result, vouched), asked)
            if Label.PRIVATE in given:
                self._private.add(text)
            if ids:
                self._ids.add(result, ids)

    def _record_trusted(self, values: Iterable[Any], asked: Any) -> None:
        """Record values that the operator trusts, up to a limit. Values beyond the limit require approval."""
        if self._known.exceeds(MAX_FLOW_SAID_BYTES):
            return
        # SECURITY: a value that only repeats a param was chosen by the model, so it is not trusted.
        repeated = b"\n".join(normalize_value(each) for each in flow_texts(asked))
        self._known.add(mark for each in values if (mark := known_mark(each)) and normalize_value(each) not in repeated)

    def add_labels_elsewhere(self, labels: frozenset[Label]) -> None:
        """Add the labels of content that only other hosts have. Any value may occur in such content."""
        with self._lock:
            self._labels |= labels
            self._untrusted.blind |= Label.UNTRUSTED in labels
            self._private.blind |= Label.PRIVATE in labels

    def approve(self, tool: str, flow: Flow) -> None:
        """Record the values and the private text of an approved call. Other tools still need approval for them."""
        with self._lock:
            shown = (*flow.destinations, *flow.controls, *flow.carried)
            self._approved |= {(tool, _destination_key(each.destination)) for each in shown}
            if not self._shown.exceeds(self._limit):
                self._shown.add(mark for each in flow.destinations for mark in _list_shown(tool, each, flow))

    def select_text_to_mark(self, outgoing: Outgoing) -> tuple[str, ...]:
        """Return the text that a call writes, if the trace has read untrusted content.

        The caller marks this text, so that it is untrusted when it is read again.
        """
        if Label.UNTRUSTED not in self._labels:
            return ()
        values = [str(each.value) for each in outgoing.destinations if carries_text(each)]
        with self._lock:
            return (*outgoing.bodies, *(value for value in values if not self._user_text.names(value, Kind.NAME)))

    def select_private_text_to_mark(self, outgoing: Outgoing) -> tuple[str, ...]:
        """Return the content of a call that includes private text of the trace.

        The caller marks this text, so that it is private when it is read again.
        """
        if Label.PRIVATE not in self._labels:
            return ()
        with self._lock:
            return tuple(body for body in outgoing.bodies if self._private.occurs_in(body))

    def clear(self, *labels: Label) -> frozenset[Label]:
        """Remove labels and the content that has them; return the removed labels. By default, remove all labels.

        Only users and operators can do this: no tool call can invoke this method.
        """
        with self._lock:
            cleared = self._labels & (frozenset(labels) if labels else frozenset(Label))
            self._labels -= cleared
            self._read -= cleared
            if Label.UNTRUSTED in cleared:
                self._untrusted = UntrustedText(self._limit)
            if Label.PRIVATE in cleared:
                self._private = PrivateText(self._limit)
            if Label.TRUSTED in cleared:
                self._user_text, self._known, self._ids, self._own_ids = UserText(), Marks(), Ids(), OwnIds()
                self._approved, self._shown = set(), Marks()
        return cleared

    def flow(
        self,
        tool: str,
        outgoing: Outgoing,
        known: Sequence[str] = (),
        *,
        is_described: Callable[[object], bool] = _never,
    ) -> Flow:
        """Return the data flow of a call.

        `known` are destinations that the operator trusts (`*@example.com`). `is_described` returns whether the
        definition of another author's tool contains a value: then it counts as found in untrusted text.
        """
        with self._lock:
            stated = self._user_text.states(list_action_words(tool, outgoing.destinations))
            traced = tuple(
                Traced(each, self._find_provenance(tool, each, known, is_described, stated=stated))
                for each in outgoing.destinations
            )
            controls = tuple(
                Traced(each, self._find_provenance(tool, each, known, is_described)) for each in outgoing.controls
            )
            labels = self._labels
            sent = [*outgoing.bodies, *outgoing.names, *self._list_unsaid_texts(traced)]
            links = self._trace_addresses(tool, "\n".join(sent), known, is_described)
            if any(each.provenance is Provenance.UNTRUSTED for each in (*traced, *controls, *links)):
                labels |= {Label.UNTRUSTED}
            private = "\n".join(sent) if Label.PRIVATE in labels else ""
            flow = Flow(
                labels, traced, controls, links[:MAX_FLOW_VALUES], stated=self._is_stated(tool, traced, controls),
                private_marks=self._private.find_marks(private),
                guessed_all=outgoing.guessed_all, cut=outgoing.cut or len(links) > MAX_FLOW_VALUES,
            )  # fmt: skip
            found = bool(flow.private_marks) or (self._private.blind and bool(private))
            return replace(flow, private_body=found and not self._was_shown(tool, flow))

    def is_untrusted(self, value: Any, is_described: Callable[[object], bool] = _never) -> bool:
        """Return whether untrusted text contains a value, and no message of the user does."""
        with self._lock:
            kind = Kind.NAME if isinstance(value, str) else Kind.AMOUNT
            if self._user_text.names(value, kind):
                return False
            found = self._untrusted.blind or self._untrusted.contains(value)
            return is_described(value) or (found and Label.UNTRUSTED in self._labels)

    def _was_shown(self, tool: str, flow: Flow) -> bool:
        """Return whether a user saw all private text of a call when its destinations were approved."""
        if self._private.blind or not flow.destinations or not all(each.provenance.vouched for each in flow.carried):
            return False
        return all(mark in self._shown for each in flow.destinations for mark in _list_shown(tool, each, flow))

    def _is_stated(self, tool: str, traced: Sequence[Traced], controls: Sequence[Traced]) -> bool:
        values = (*traced, *(each for each in controls if each.destination.kind is not Kind.TIME))
        said = [each.destination for each in traced if each.provenance is Provenance.SAID]
        named = all(each.provenance.vouched for each in values)
        return named and self._user_text.states(list_action_words(tool, said))

    def _list_unsaid_texts(self, traced: Iterable[Traced]) -> list[str]:
        """Return the destinations that nobody named and that can carry data.

        An address that is itself private text, such as that of a contact, carries no other private text. A name, a path
        or an identifier can carry data to another destination only if it contains an address.
        """
        values = [(str(each.destination.value), each.destination.kind) for each in traced
                  if not each.provenance.vouched and each.destination.kind is not Kind.AMOUNT]  # fmt: skip
        return [
            value for value, kind in values
            if kind is Kind.URL or (kind is Kind.ADDRESS and not self._private.is_one_word(value))
            or (kind is not Kind.ADDRESS and next(find_addresses(value), None) is not None)
        ]  # fmt: skip

    def _trace_addresses(
        self, tool: str, text: str, known: Sequence[str], is_described: Callable[[object], bool]
    ) -> tuple[Traced, ...]:
        """Return the addresses inside outgoing text, up to one more than the limit.

        If their provenance is `UNSAID`, these are omitted: numbers, and email addresses that are private text.
        """
        found: dict[str, Traced] = {}
        for value, form in find_addresses(text):
            if value.casefold() in found or (form is Form.FILE and not self._private.occurs_in(value)):
                continue
            if form is Form.SPLIT and any(
                value.startswith(name) for name, other in found.items() if other.provenance.vouched
            ):
                continue
            if len(found) > MAX_FLOW_VALUES:
                break
            each = Destination("text", value, _KINDS[form])
            provenance = self._find_address_provenance(tool, each, known, is_described)
            if provenance is Provenance.UNSAID and (
                form is Form.CODE or (form is Form.MAIL and self._private.is_one_word(value))
            ):
                continue
            found[value.casefold()] = Traced(each, provenance)
        return tuple(found.values())

    def _find_address_provenance(
        self, tool: str, each: Destination, known: Sequence[str], is_described: Callable[[object], bool]
    ) -> Provenance:
        bare = str(each.value).lstrip("/\\")
        found = self._find_provenance(tool, each, known, is_described)
        if each.kind is not Kind.URL or "://" in bare or found.vouched:
            return found
        if self._user_text.names(bare, Kind.NAME):
            return Provenance.SAID
        for value in (bare, f"//{bare}"):
            other = self._find_provenance(tool, replace(each, value=value), known, is_described)
            if other.vouched or other is Provenance.UNTRUSTED:
                return other
        return found

    def origin(self, destination: Destination) -> Origin | None:
        """Return the source of a destination in untrusted content, or None if no stored text contains it."""
        with self._lock:
            return self._untrusted.find_origin(destination.value)

    def _is_named_by_user(self, each: Destination) -> bool:
        """Return whether the user named the thing that an identifier identifies."""
        names = self._ids.names(each.param, each.value)
        return bool(names) and all(self._user_text.names(name, Kind.NAME) for name in names)

    def _find_provenance(
        self,
        tool: str,
        each: Destination,
        known: Sequence[str],
        is_described: Callable[[object], bool] = _never,
        *,
        stated: bool = False,
    ) -> Provenance:
        brought = each.kind is Kind.PATH and self._has_untrusted_folder(each.value)
        if (
            not brought
            and self._user_text.names(each.value, each.kind, each.noun)
            and not self._contains_untrusted_link(each)
        ):
            return Provenance.SAID
        if (tool, _destination_key(each)) in self._approved or any(matches_pattern(each, pattern) for pattern in known):
            return Provenance.KNOWN
        if any(mark in self._known for mark in known_marks(each)):
            return Provenance.KNOWN
        if each.kind is Kind.ID and self._is_named_by_user(each):
            return Provenance.SAID
        if stated and each.kind is Kind.ID and self._own_ids.contains(each.param, each.value):
            return Provenance.KNOWN
        if is_described(each.value):
            return Provenance.UNTRUSTED
        if Label.UNTRUSTED not in self._labels:
            return Provenance.UNSAID
        found = brought or self._untrusted.contains(each.value) or self._untrusted.blind
        return Provenance.UNTRUSTED if found else Provenance.UNSAID

    def _contains_untrusted_link(self, each: Destination) -> bool:
        """Return whether a URL from the user contains another link that is found only in untrusted content."""
        if each.kind is not Kind.URL or Label.UNTRUSTED not in self._labels:
            return False
        within = (link for link in find_inner_values(each.value) if not self._user_text.names(link, Kind.URL))
        return any(self._untrusted.contains(link) for link in within)

    def _has_untrusted_folder(self, path: object) -> bool:
        """Return whether a path contains a folder that the user did not name and untrusted content mentions."""
        if Label.UNTRUSTED not in self._labels:
            return False
        folders = self._user_text.list_unsaid_folders(path)
        return bool(folders) and (self._untrusted.blind or any(map(self._untrusted.contains, folders)))


def _destination_key(destination: Destination) -> str:
    return f"{destination.kind} {parse_number(destination.value) or destination.value}".casefold()


def _list_shown(tool: str, each: Traced, flow: Flow) -> list[bytes]:
    place = f"{tool} {_destination_key(each.destination)}\0".encode("utf-8", "replace")
    return [place + mark for mark in flow.private_marks]
