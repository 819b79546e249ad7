"""Store untrusted content, and find values in it with the sentences that contain them."""

from __future__ import annotations

import ipaddress
import posixpath
import re
import zlib
from dataclasses import dataclass

from blake3 import blake3

from wasmrt.agent.flows._addresses import find_links
from wasmrt.agent.flows._chunks import ChunkedText
from wasmrt.agent.flows._forms import (
    MIN_SQUEEZED,
    decode_escapes,
    find_numbers,
    find_short_words,
    iter_block_readings,
    make_skeleton,
    parse_amount,
    split_blocks,
    squeeze,
    value_forms,
)
from wasmrt.agent.flows._private import Marks
from wasmrt.core.limits import MAX_FLOW_BYTES, MAX_FLOW_SOURCES

_FIRST_BYTES = 4096
"""Space allowed in addition to two bytes for each added byte: at the beginning of a trace, all words are new."""
_LONG_BYTES = 1024
_MAX_SENTENCE = 300
_MAX_SENTENCES = 500
"""Maximum number of sentences that are searched for a value in a different spelling."""
_PENDING_BYTES = 256 * 1024
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_HOST = re.compile(
    r"(?:(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,}|(?:https?|wss?|ftp):[/\\]*)(?:[^/?#@\\]*@)?(\[[^\]]*\]|[^/?#:\\]+)"
    r"|((?:www\.)?(?:[\w-]+\.)+[a-z]{2,24})(?=[/?#:])"
)
_OF_A_HOST = re.compile(r"[\w.-]+")
_NUMERIC = re.compile(  # an IP address as host, in every spelling that programs accept
    r"(?:(?<=[/\\@])|(?<![\w.])(?=(?:\d{1,3}\.){3}\d))((?:0x[0-9a-f]{1,8}|\d{1,11})(?:\.(?:0x[0-9a-f]{1,8}|\d{1,11})){0,3}|\[[0-9a-f:.]{2,45}\])"
    r"(?=[/?#:\s\"'<>,;!)]|\.(?!\d)|$)"
)
_MAY_BE_NUMERIC, _DOTTED = re.compile(r"[/\\@][\d\[]"), re.compile(r"\d\.\d")
"""Every numeric host matches one of these two patterns. They are searched for first, because that is faster."""
_PHONE = re.compile(r"[+(]?[\d ()/.-]{6,24}")
_IN_A_LINK = re.compile(r"(?<=[^a-z])(https?:/\S{1,2048})|(?<==)((?:[\w-]{1,63}\.){1,8}[a-z]{2,24}/?)(?=[&#]|$)")
_ACCOUNT = re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}|0x[0-9a-fA-F]{40}")
_MAX_INSIDE = 4096
"""Maximum length of a value that is searched for other values."""
_MAX_ADDRESS = 45
_MAX_ANSWERS = 256
_GAP = b"\0"
"""A separator between two texts, so that no match spans both."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a value in untrusted content: the call that returned it, and the sentence that contains it."""

    tool: str
    call: str
    sentence: str
    """The sentence, possibly cut; empty if the text is no longer stored."""


@dataclass(slots=True)
class _Source:
    tool: str
    call: str
    packed: bytes | None
    """The compressed text; None if there was no space left for it."""

    @property
    def text(self) -> str:
        return "" if self.packed is None else zlib.decompress(self.packed).decode("utf-8", "replace")


class _Index:
    """An index of texts: their letters and digits, and marks of their short words and numbers."""

    def __init__(self) -> None:
        self._text = ChunkedText()
        self._marks = Marks()

    @property
    def size(self) -> int:
        return len(self._text) + self._marks.size

    def add(self, text: str, space: int) -> bool:
        """Add a text if it needs at most `space` bytes; return whether it was added."""
        letters, decoded, words = bytearray(), bytearray(), set()
        for block, wider in split_blocks(text):
            if len(letters) + len(decoded) > space:
                return False
            letters += squeeze(make_skeleton(block))
            for place, plain in enumerate(iter_block_readings(wider)):
                decoded += squeeze(plain) + _GAP if place else b""
                words |= {b"w" + word for word in find_short_words(plain)}
                words |= {f"#{found}".encode() for found in find_numbers(plain)}
                if _MAY_BE_NUMERIC.search(plain) or _DOTTED.search(plain):
                    words |= {b"ip" + found for host in _NUMERIC.findall(plain) if (found := _normalize_ip(host))}
        letters += _GAP + decoded
        if len(letters) + 4 * len(words) > space:
            words = {word for word in words if word not in self._marks}
            if len(letters) + 4 * len(words) > space:
                return False
        self._text.append(letters)
        self._marks.add(words)
        return True

    def contains(self, value: object) -> bool:
        """Return whether the added texts contain a complete value, in any spelling."""
        if (found := parse_amount(value)) is not None and f"#{found}".encode() in self._marks:
            return True
        if not isinstance(value, str):
            return False
        if (address := _normalize_ip(value)) and b"ip" + address in self._marks:
            return True
        return any(
            form in self._text if len(form) >= MIN_SQUEEZED else b"w" + form in self._marks
            for form in (*value_forms(value), *_list_phone_forms(value))
        )


class UntrustedText:
    """The untrusted content of a trace. It needs about two bytes for each added byte, and never more than its limit.

    SECURITY: stored content is never removed. Content beyond the limit is not stored; instead, `blind` becomes true,
    because from then on, a value that is not found may nevertheless be untrusted.
    """

    def __init__(self, limit: int = MAX_FLOW_BYTES) -> None:
        self._limit = limit
        self._index = _Index()
        self._sources: list[_Source] = []
        self._packed = 0
        self._pending: list[tuple[_Source | None, str]] = []
        self._pending_bytes = 0
        self._long: set[bytes] = set()
        """Digests of the long texts that are stored. A program that is resumed adds the same texts again."""
        self._answers: dict[str, bool] = {}
        """The recent answers of `contains`: one call asks several times for the same value."""
        self.seen = 0
        """The number of bytes that were added, including content that was not stored."""
        self.blind = False

    @property
    def size(self) -> int:
        """The stored size in bytes."""
        return self._index.size + self._packed + self._pending_bytes

    def add(self, text: str, tool: str = "", call: str = "") -> None:
        """Add the text of a result. The text is indexed at the next search."""
        if not text:
            return
        size = _count_utf8_bytes(text)
        digest = blake3(text.encode("utf-8", "surrogatepass")).digest() if size >= _LONG_BYTES else b""
        if digest in self._long:
            return
        self.seen += size
        if self.size + size > self._limit:
            self.blind = True
            return
        if digest:
            self._long.add(digest)
        source = None
        if len(self._sources) < MAX_FLOW_SOURCES:
            source = _Source(tool, call, None)
            self._sources.append(source)
        self._pending.append((source, text))
        self._pending_bytes += size
        if self._pending_bytes > _PENDING_BYTES:
            self.index_pending()

    def index_pending(self) -> None:
        """Index all pending texts."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending or len(self._answers) > _MAX_ANSWERS:
            self._answers.clear()
        allowed = min(2 * self.seen + _FIRST_BYTES, self._limit)
        for source, text in pending:
            if not self._index.add(text, allowed - self.size):
                self.blind = True
                continue
            packed = zlib.compress(text.encode("utf-8", "replace"), 1)
            if source is not None and self.size + len(packed) <= allowed:
                source.packed = packed
                self._packed += len(packed)

    def contains(self, value: object) -> bool:
        """Return whether the content contains a value. For an email address or a URL, its domain is sufficient.

        If the value contains other values, such as an address after a name, one of these is sufficient.
        """
        self.index_pending()
        if not isinstance(value, str):
            return self._contains(value)
        known = self._answers.get(value)
        if known is None:
            known = self._contains(value) or any(map(self._contains, find_inner_values(value)))
            self._answers[value] = known
        return known

    def _contains(self, value: object) -> bool:
        parts = deciding_parts(value)
        ends = [part for part in parts if not any(part != other and part.endswith(other) for other in parts)]
        if ends and all(len(squeeze(part)) >= MIN_SQUEEZED for part in ends):
            return any(map(self._index.contains, ends))  # a text with the whole value also contains the domain
        return any(self._index.contains(part) for part in (value, *parts))

    def find_origin(self, value: object) -> Origin | None:
        """Return the first source of a value, or None if no stored text contains it."""
        self.index_pending()
        within = find_inner_values(value)
        for wanted in (
            value,
            *deciding_parts(value),
            *within,
            *(part for each in (*within, f"//{value}") for part in deciding_parts(each)),
        ):
            for source in self._sources:
                text = source.text
                if text and _contains_value(text, wanted):
                    return Origin(source.tool, source.call, _find_sentence(text, wanted))
        return None


def deciding_parts(value: object) -> tuple[str, ...]:
    """Return the parts of an email address or a URL that decide where data goes: its host and the host's domain."""
    if not isinstance(value, str):
        return ()
    plain = decode_escapes(make_skeleton(value)).strip()
    if (found := _HOST.match(plain)) is not None:
        host = (found[1] or found[2]).removeprefix("www.")
        if host.startswith("["):
            return (host,)
        # Programs disagree about the end of a host with unusual characters.
        hosts = dict.fromkeys((*_OF_A_HOST.findall(host), host))
        return tuple(dict.fromkeys(part for each in hosts for part in (each, _get_registrable_domain(each))))
    local, at, domain = plain.removeprefix("mailto:").partition("?")[0].rpartition("@")
    if not (at and local and "." in domain) or " " in plain:
        return ()
    return tuple(dict.fromkeys((domain, _get_registrable_domain(domain))))


def find_inner_values(value: object) -> tuple[str, ...]:
    """Return the links, addresses and account numbers inside a longer value."""
    if not isinstance(value, str) or len(value) > _MAX_INSIDE:
        return ()
    plain = value if value.isascii() and "%" not in value else decode_escapes(make_skeleton(value))
    found = [*find_links(plain), *(each[0] for each in _ACCOUNT.finditer(value))]
    if "://" in plain:
        found += [each[0] for each in _IN_A_LINK.finditer(plain)]
    if "/." in plain:
        found.append(posixpath.normpath(plain))
    return tuple(each for each in dict.fromkeys(found) if each != value)


def _normalize_ip(host: str) -> bytes:
    """Return an IP address in its canonical form, or b"" if the host is not an IP address.

    For example, 3405803783 is the address 203.0.113.7.
    """
    found = _HOST.match(host.lower())
    plain = (found[1] or "" if found else host).strip("[]")
    if not plain or len(plain) > _MAX_ADDRESS or (not plain[0].isalnum() and plain[0] != ":"):
        return b""
    try:
        if ":" in plain:
            address = ipaddress.IPv6Address(plain)
            return str(address.ipv4_mapped or address).encode()
        return str(ipaddress.IPv4Address(_parse_ipv4(plain.split(".")))).encode()
    except ValueError:
        return b""


def _parse_ipv4(parts: list[str]) -> int:
    """Return the number of an IPv4 address in one to four parts: decimal, octal with 0, or hexadecimal with 0x.

    Raises:
        ValueError: the parts are not an IPv4 address.
    """
    *first, last = (int(part, 16 if part[1:2] == "x" else 8 if part[0] == "0" else 10) for part in parts if part)
    bound = 1 << 8 * (4 - len(first)) if len(first) < 4 else 0
    if last >= bound or max(first, default=0) > 255:
        raise ValueError("not an address")
    return sum(part << 8 * (3 - place) for place, part in enumerate(first)) + last


def _list_phone_forms(value: str) -> tuple[bytes, ...]:
    """Return the digits of a telephone number, with and without a country code; empty for other values."""
    plain = make_skeleton(value).strip().removeprefix("tel:").replace("(0)", "")
    if _PHONE.fullmatch(plain) is None:
        return ()
    digits = re.sub(r"\D", "", plain)
    abroad = plain.startswith("+") or digits.startswith("00")
    if not abroad and not digits.startswith("0"):
        return ()
    digits = digits.lstrip("0")
    cuts = range(4 if abroad else 1)
    return tuple(digits[cut:].encode() for cut in cuts if len(digits) - cut >= MIN_SQUEEZED)


def _get_registrable_domain(host: str) -> str:
    """Return the registrable domain of a host: two labels, or three if the last two are short."""
    labels = host.rstrip(".").split(".")
    short = len(labels) > 2 and len(labels[-1]) <= 3 and len(labels[-2]) <= 3
    return ".".join(labels[-3:] if short else labels[-2:])


def _count_utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _contains_value(text: str, value: object) -> bool:
    index = _Index()
    index.add(text, 64 * len(text) + _FIRST_BYTES)
    return index.contains(value)


def _find_sentence(text: str, value: object) -> str:
    """Return the shortest sequence of sentences that contains a value, possibly cut."""
    parts = [part.strip() for part in _SENTENCES.split(text) if part.strip()]
    wanted = str(value).lower()
    plain = next((part for part in parts if wanted in part.lower() and _contains_value(part, value)), None)
    if plain is not None:
        return _cut_around(plain, value)
    for count in (1, 2, 3):
        for start in range(min(len(parts) - count + 1, _MAX_SENTENCES)):
            joined = " ".join(parts[start : start + count])
            if _contains_value(joined, value):
                return _cut_around(joined, value)
    return _cut_around(" ".join(parts), value)


def _cut_around(text: str, value: object) -> str:
    if len(text) <= _MAX_SENTENCE:
        return text
    place = text.lower().find(str(value).lower())
    start = max(0, min(place - _MAX_SENTENCE // 2, len(text) - _MAX_SENTENCE)) if place > 0 else 0
    head, tail = "..." if start else "", "..." if start + _MAX_SENTENCE < len(text) else ""
    return f"{head}{text[start : start + _MAX_SENTENCE]}{tail}"
