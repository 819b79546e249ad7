"""A trace: one conversation or job, with what it has seen and who said it."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wasmrt.agent.flows._destinations import Destination, Kind, Outgoing, is_email
from wasmrt.agent.flows._forms import number
from wasmrt.agent.flows._ids import Ids, members
from wasmrt.agent.flows._labels import Provenance, read_labels
from wasmrt.agent.flows._marks import Marks
from wasmrt.agent.flows._private import Private
from wasmrt.agent.flows._said import Said
from wasmrt.agent.flows._seen import Origin, Seen, inside
from wasmrt.core.labels import Label
from wasmrt.core.limits import MAX_FLOW_BYTES, MAX_FLOW_LINKS, MAX_FLOW_SAID_BYTES, MAX_FLOW_VALUES

_WEB_HOST = re.compile(r"(?:(?:https?|wss?)://)?([\w.-]+)(?::\d{1,5})?(?:[/?#]\S*)?")
_PLAIN_LINK = re.compile(r"(?:https?://)?[a-zA-Z0-9.-]{1,60}(?:/[a-zA-Z0-9._~/-]{0,40})?")
_AMOUNT = b"\0#"
"""Before a number that is known as an amount."""
_LOCAL_PART = re.compile(r"[\w.+'=&~-]{1,64}")
"""Without the signs that old servers take for a route to another host (`eve%evil.example@example.com`)."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A destination with its provenance."""

    destination: Destination
    provenance: Provenance

    @property
    def named(self) -> str:
        """The destination in words: `to = eve@example.com`."""
        return f"{self.destination.param} = {self.destination.value}"


@dataclass(frozen=True, slots=True)
class Flow:
    """A call as a flow: what the trace had seen, where the call goes, and what it carries."""

    labels: frozenset[Label]
    destinations: tuple[Traced, ...]
    carried: tuple[Traced, ...] = ()
    """Links and addresses inside of what is sent."""
    private_body: bool = False
    """True where what is sent holds a part of what is private."""
    guessed_all: bool = False
    cut: bool = False


class FlowTrace:
    """The labels of one trace, and the texts behind them. Safe to use from many threads.

    SECURITY: everything here grows only. What does not fit any more makes it blind, and then more is asked.
    """

    def __init__(self, *, automation: bool = False, limit: int = MAX_FLOW_BYTES) -> None:
        self.automation = automation
        """True where nobody is there to be asked: what would ask refuses."""
        self._limit = limit
        self._lock = threading.RLock()
        self._labels: frozenset[Label] = frozenset()
        self._said, self._known = Said(), Marks()
        self._seen, self._private = Seen(limit), Private(limit)
        self._ids = Ids()
        self._approved: set[tuple[str, str]] = set()
        """Tools, and destinations that a person approved for them."""
        self._approved_links: set[tuple[str, str]] = set()
        """Tools, and links that a person let them read beside the one that was asked about."""

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of everything that was seen."""
        return self._labels

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._seen.size + self._private.size

    @property
    def has_statement(self) -> bool:
        """True where the person has said something."""
        return Label.TRUSTED in self._labels

    def user_said(self, text: str) -> None:
        """Take in words of the person: what they name is not asked about."""
        with self._lock:
            self._labels |= {Label.TRUSTED}
            self._said.add(text)

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
    ) -> None:
        """Take in a result, or any other text that the model gets, with its labels.

        `ids` are the parameters that take the identifiers in it, and `vouched` the members of it that the service
        writes itself, where the operator vouches for these. `asked` are the parameters of the call.
        """
        given = read_labels(labels)
        text = "\n".join(flow_texts(result))
        with self._lock:
            self._labels |= given
            if Label.UNTRUSTED in given:
                self._seen.add(text, tool, call)
            elif given:
                self._vouch(_wholes(result), asked)
            if vouched:
                self._vouch(members(result, vouched), asked)
            if Label.PRIVATE in given:
                self._private.add(text)
            if ids:
                self._ids.add(result, ids)

    def _vouch(self, values: Iterable[Any], asked: Any) -> None:
        """Take in values that the operator vouches for, so far as there is room; the others are asked about."""
        if self._known.size >= MAX_FLOW_SAID_BYTES:
            return
        # SECURITY: what a tool repeats of its parameters is the model's word, and nobody vouches for it.
        repeated = b"\n".join(_whole(each) for each in flow_texts(asked))
        self._known.add(mark for each in values if (mark := _known_mark(each)) and _whole(each) not in repeated)

    def approve(self, tool: str, destinations: Iterable[Traced]) -> None:
        """Take in destinations that a person approved for a tool. What may be read is not thereby to be deleted."""
        with self._lock:
            self._approved |= {(tool, _key(each.destination)) for each in destinations}

    def approve_links(self, tool: str, links: Iterable[Destination]) -> None:
        """Take in links that a person lets a tool read: for calls that carry nothing else, and no others."""
        with self._lock:
            self._approved_links |= {(tool, _key(each)) for each in links}

    def links_beside(self, traced: Traced) -> tuple[Destination, ...]:
        """Return the other links of the text that a link stands in, where all of them are few, plain and a stranger's.

        SECURITY: the link has to stand there whole, and a link with a query, or a long one, is left out: what carries
        data is asked about by itself. Of many links none is returned, since which one is read would tell something.
        """
        with self._lock:
            found = [
                Destination(traced.destination.param, link, Kind.URL)
                for link in self._seen.links_beside(traced.destination.value)
                if "://" in link or not is_email(link)
            ]
            if not 0 < len(found) < MAX_FLOW_LINKS or not all(map(_is_plain_link, found)):
                return ()
            known = {Provenance.SAID, Provenance.KNOWN}
            return tuple(each for each in found if self._provenance("", each, ()) not in known)

    def written(self, outgoing: Outgoing) -> tuple[str, ...]:
        """Return what a call writes down after strangers' text was seen: read again, it is still a stranger's."""
        if Label.UNTRUSTED not in self._labels:
            return ()
        said = [str(each.value) for each in outgoing.destinations if each.kind in (Kind.NAME, Kind.ADDRESS, Kind.URL)]
        with self._lock:
            return (*outgoing.bodies, *(value for value in said if not self._said.names(value, Kind.NAME)))

    def clear(self, *labels: Label) -> frozenset[Label]:
        """Forget what was seen under some labels, all where none is given; return those that were cleared.

        For a person alone: nothing that a model calls reaches it.
        """
        with self._lock:
            cleared = self._labels & (frozenset(labels) if labels else frozenset(Label))
            self._labels -= cleared
            if Label.UNTRUSTED in cleared:
                self._seen = Seen(self._limit)
            if Label.PRIVATE in cleared:
                self._private = Private(self._limit)
            if Label.TRUSTED in cleared:
                self._said, self._known, self._ids = Said(), Marks(), Ids()
                self._approved, self._approved_links = set(), set()
        return cleared

    def flow(self, tool: str, outgoing: Outgoing, known: Sequence[str] = ()) -> Flow:
        """Return a call as a flow. `known` are destinations that the operator vouches for (`*@example.com`)."""
        with self._lock:
            reads = not outgoing.bodies
            traced = tuple(
                Traced(each, self._provenance(tool, each, known, reads=reads)) for each in outgoing.destinations
            )
            carried = outgoing.carried  # found in the texts each time
            links = tuple(Traced(each, self._provenance(tool, each, known)) for each in carried[:MAX_FLOW_VALUES])
            body = "\n".join(outgoing.bodies)
            private = Label.PRIVATE in self._labels and self._private.is_in(body)
            fresh = not outgoing.destinations or any(
                (tool, _key(each)) not in self._approved for each in outgoing.destinations
            )
            return Flow(
                self._labels, traced, links, private_body=private and fresh, guessed_all=outgoing.guessed_all,
                cut=outgoing.cut or len(carried) > MAX_FLOW_VALUES,
            )  # fmt: skip

    def origin(self, destination: Destination) -> Origin | None:
        """Return where a destination stood in text that strangers could write; None where no kept text holds it."""
        with self._lock:
            return self._seen.where(destination.value)

    def _said_by_name(self, each: Destination) -> bool:
        """Tell whether the person said what an identifier names: people say the name, and not the number."""
        names = self._ids.names(each.param, each.value)
        return bool(names) and all(self._said.names(name, Kind.NAME) for name in names)

    def _provenance(self, tool: str, each: Destination, known: Sequence[str], *, reads: bool = False) -> Provenance:
        brought = each.kind is Kind.PATH and self._brought(each.value)
        if not brought and self._said.names(each.value, each.kind, each.noun) and not self._leads_on(each):
            return Provenance.SAID
        if (tool, _key(each)) in self._approved or any(_fits(each, pattern) for pattern in known):
            return Provenance.KNOWN
        if reads and (tool, _key(each)) in self._approved_links:
            return Provenance.KNOWN
        if any(mark in self._known for mark in _known_marks(each)):
            return Provenance.KNOWN
        if each.kind is Kind.ID and self._said_by_name(each):
            return Provenance.SAID
        if Label.UNTRUSTED not in self._labels:
            return Provenance.UNSAID
        found = brought or self._seen.holds(each.value) or self._seen.blind
        return Provenance.UNTRUSTED if found else Provenance.UNSAID

    def _leads_on(self, each: Destination) -> bool:
        """Tell whether a URL that was said holds another link, which only a stranger's text names."""
        if each.kind is not Kind.URL or Label.UNTRUSTED not in self._labels:
            return False
        within = (link for link in inside(each.value) if not self._said.names(link, Kind.URL))
        return any(self._seen.holds(link) for link in within)

    def _brought(self, path: object) -> bool:
        """Tell whether a stranger's text may have brought a folder of a path that the person did not say whole."""
        if Label.UNTRUSTED not in self._labels:
            return False
        folders = self._said.unsaid_folders(path)
        return bool(folders) and (self._seen.blind or any(map(self._seen.holds, folders)))


def _key(destination: Destination) -> str:
    return f"{destination.kind} {number(destination.value) or destination.value}".casefold()


def _wholes(result: Any) -> Iterable[str]:
    """Return the values of a result, each as a whole; of a result that is one text, its words.

    SECURITY: where a stranger can write a name in a list, a destination inside of that name is not known thereby.
    """
    return (word.strip(".,;:<>()\"'") for word in result.split()) if isinstance(result, str) else flow_texts(result)


def _whole(value: object) -> bytes:
    return unicodedata.normalize("NFC", str(value)).casefold().strip().encode("utf-8", "replace")


def _known_mark(value: object) -> bytes:
    """Return what is kept of a value that is known. A number is one of an amount, and nothing else."""
    if isinstance(value, (int, float)) and (found := number(value)) is not None:
        return _AMOUNT + found.encode()
    return _whole(value)


def _known_marks(destination: Destination) -> tuple[bytes, ...]:
    found = number(destination.value) if destination.kind is Kind.AMOUNT else None
    whole = _whole(destination.value)
    return (whole,) if found is None else (whole, _AMOUNT + found.encode())


def _is_plain_link(link: Destination) -> bool:
    return _PLAIN_LINK.fullmatch(link.value) is not None


def _fits(destination: Destination, pattern: str) -> bool:
    """Tell whether an operator's pattern is for a destination: an address, `*@DOMAIN`, a host, `*.HOST`."""
    if not str(destination.value).isprintable():
        return False  # a line break, or a character that nobody sees
    value = str(destination.value).strip().lower()
    if destination.kind is Kind.URL:
        found = _WEB_HOST.fullmatch(value)
        if found is None or "@" in value or "\\" in value:
            return False
        value = found[1]
        if pattern.startswith("*."):
            return value.endswith(pattern[1:].lower())
    if pattern.startswith("*@") and destination.kind is Kind.ADDRESS:
        local, _, domain = value.partition("@")
        return _LOCAL_PART.fullmatch(local) is not None and domain == pattern[2:].lower()
    return value == pattern.lower()


def flow_texts(value: Any) -> Iterator[str]:
    """Yield every text and number of a result, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from flow_texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from flow_texts(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
