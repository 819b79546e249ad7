"""Decides whether a request is on an allowlist, and tells what would have to change if it is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from wasmrt.capabilities._endpoint import METHODS, EndpointPattern, host_matches
from wasmrt.capabilities._hints import line_hint
from wasmrt.errors import ConfigurationError
from wasmrt.limits import MAX_URL_BYTES
from wasmrt.model import Decision, Reason
from wasmrt.url import DEFAULT_PORTS
from wasmrt.url._addresses import AddressClass, Network, classify_address, is_exempt, parse_networks
from wasmrt.url._host import parse_address
from wasmrt.url._path import is_under
from wasmrt.url._url import InvalidUrlError, ParsedUrl, parse_url

_RULE = "http.allowlist"
_SUBJECT_LENGTH = 200
_PATH_LENGTH = 512
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://")
_PRIVATE_NAMES = ("localhost", "localdomain", "local", "internal", "home.arpa")
# Later means closer to a match; the closest entry tells the reason.
_STAGES = (
    Reason.HOST_NOT_ALLOWED,
    Reason.INSECURE_SCHEME,
    Reason.PORT_NOT_ALLOWED,
    Reason.INVALID_URL,
    Reason.PATH_NOT_ALLOWED,
    Reason.METHOD_NOT_ALLOWED,
)
_RULES = {
    Reason.HOST_NOT_ALLOWED: "no entry of http.allowlist covers this host",
    Reason.INSECURE_SCHEME: "requests go over https unless an entry of http.allowlist says otherwise",
    Reason.PORT_NOT_ALLOWED: "the entries for this host cover other ports",
    Reason.INVALID_URL: "the URL's path holds a broken percent escape, which lies under no path_prefix",
    Reason.PATH_NOT_ALLOWED: "the entries for this host cover other paths",
    Reason.METHOD_NOT_ALLOWED: "the entries for this host and path cover other methods",
}


class AllowlistValidator:
    """Judges URLs against an allowlist. Holds no state beyond it and touches no network.

    `networks` are those that an operator exempts. They decide nothing here: a hint names no line that the judging of
    addresses would make useless.
    """

    __slots__ = ("_networks", "_patterns")

    def __init__(self, patterns: Iterable[EndpointPattern], networks: Sequence[Network] = ()) -> None:
        self._patterns = tuple(patterns)
        self._networks = networks

    def validate(self, url: str, method: str = "GET") -> Decision:
        """Decide a URL as a guest wrote it."""
        if not self._patterns:
            return _denied(Reason.EMPTY_ALLOWLIST, "http.allowlist is empty", "", self._line_for_text(url, method))
        try:
            return self.check(parse_url(url), method)
        except InvalidUrlError as problem:
            return _denied(Reason.INVALID_URL, problem.message, describe_unread(url, method), problem.hint)

    def check(self, url: ParsedUrl, method: str) -> Decision:
        """Decide a URL that was already parsed: the same value is then sent."""
        subject = describe_request(url, method)
        verb = method.upper() if isinstance(method, str) else ""
        if verb not in METHODS:
            rule = f"the method is not one of {', '.join(METHODS)}"
            return _denied(Reason.METHOD_NOT_ALLOWED, rule, subject, "use one of them")
        if not self._patterns:
            return _denied(Reason.EMPTY_ALLOWLIST, "http.allowlist is empty", subject, self._line_hint(url, verb))
        closest = -1
        for index, pattern in enumerate(self._patterns):
            failed = _first_mismatch(pattern, url, verb)
            if failed is None:
                rule = f"{_RULE}[{index}]"
                return Decision(True, Reason.ALLOWED, rule, capability="http", subject=subject)
            closest = max(closest, _STAGES.index(failed))
        if url.scheme == "http" and not any("http" in pattern.schemes for pattern in self._patterns):
            closest = _STAGES.index(Reason.INSECURE_SCHEME)
        reason = _STAGES[closest]
        return _denied(reason, _RULES[reason], subject, self._line_hint(url, verb))

    def _line_hint(self, url: ParsedUrl, method: str) -> str | None:
        if (refused := judge_host(url, self._networks)) is not None:
            return refused.hint
        try:
            return line_hint(_RULE, entry_for(url, method).as_line())
        except (ConfigurationError, ValueError):
            return "no entry can cover this path; write it without broken escapes"

    def _line_for_text(self, url: str, method: str) -> str | None:
        try:
            return self._line_hint(parse_url(url), method)
        except InvalidUrlError as problem:
            return problem.hint


def _first_mismatch(pattern: EndpointPattern, url: ParsedUrl, method: str) -> Reason | None:
    if not host_matches(pattern.host_pattern, url.host):
        return Reason.HOST_NOT_ALLOWED
    if url.scheme not in pattern.schemes:
        # An entry for http alone covers port 80; https is not the insecure one.
        return Reason.INSECURE_SCHEME if url.scheme == "http" else Reason.PORT_NOT_ALLOWED
    if url.port not in pattern.ports_for(url.scheme):
        return Reason.PORT_NOT_ALLOWED
    if not is_under(pattern.path_prefix, url.segments):
        return Reason.PATH_NOT_ALLOWED if url.segments is not None else Reason.INVALID_URL
    if pattern.methods and method not in pattern.methods:
        return Reason.METHOD_NOT_ALLOWED
    return None


def judge_host(url: ParsedUrl, networks: Sequence[Network] = ()) -> Decision | None:
    """Refuse a host that needs no resolver to be known as internal; None where there is nothing against it.

    RFC 6761 (localhost), RFC 6762 (local), RFC 8375 (home.arpa), ICANN's reservation of internal.
    """
    rule = internal_host(url.host, networks)
    return None if rule is None else _denied(Reason.ADDRESS_NOT_ALLOWED, rule, url.origin, _network_hint())


def internal_host(host: str, networks: Sequence[Network] = ()) -> str | None:
    """Say what makes a canonical host, or a pattern of names, internal; None where nothing is known against it."""
    if (address := parse_address(host)) is not None:
        return _address_problem(str(address), networks)
    last_two = host.split(".")[-2:]
    private = last_two[-1] in _PRIVATE_NAMES or ".".join(last_two) in _PRIVATE_NAMES
    return "the host is a name that only private networks answer for" if private and not networks else None


def judge_addresses(addresses: Iterable[str], networks: Iterable[Network | str] = (), subject: str = "") -> Decision:
    """Decide whether a host with these addresses may be dialled: there is one, and all are public or exempt."""
    exempt = parse_networks(networks)
    count = 0
    for address in addresses:
        count += 1
        if (problem := _address_problem(address, exempt)) is not None:
            return _denied(Reason.ADDRESS_NOT_ALLOWED, problem, subject, _network_hint())
    if not count:
        return _denied(Reason.NO_ADDRESS, "the host has no address", subject, "check the host's name")
    return Decision(True, Reason.ALLOWED, "every address is public or exempt", capability="http", subject=subject)


def _address_problem(address: str, exempt: Sequence[Network]) -> str | None:
    kind = classify_address(address)
    if kind is AddressClass.PUBLIC or (kind is not AddressClass.UNREADABLE and is_exempt(address, exempt)):
        return None
    shown = address if kind is not AddressClass.UNREADABLE else "an answer that is no address"
    return f"{shown} is {kind}, not public"


def describe_request(url: ParsedUrl, method: str) -> str:
    """Name a request for people and logs: without its query, cut."""
    return _cut(f"{_verb(method)} {url.origin}{url.path}")


def describe_unread(url: object, method: str, redact: Callable[[str], str] = str) -> str:
    """Name a request whose URL could not be read: without query, fragment, user name and password, in plain ASCII, cut.

    What cannot be seen goes before `redact` looks, so that nothing hides a secret from it by standing in between.
    """
    text = url if isinstance(url, str) else ""
    scheme = found[0] if (found := _SCHEME.match(text)) else ""
    rest = text[len(scheme) :]
    shown = re.split(r"[?#]", rest, maxsplit=1)[0]
    if "@" in rest:  # a password may hold any of `/?#`: nothing before the last `@` is shown, nor a query behind one
        shown = f"...{shown[shown.rindex('@') :]}" if shown.count("@") == rest.count("@") else "..."
    text = redact("".join(c for c in f"{scheme}{shown}"[:MAX_URL_BYTES] if c.isprintable()))
    return _cut(f"{_verb(method)} {text.encode('ascii', 'backslashreplace').decode('ascii')}".rstrip())


def _cut(text: str) -> str:
    """Cut what a decision is about to the length that people and logs are shown."""
    return text if len(text) <= _SUBJECT_LENGTH else f"{text[:_SUBJECT_LENGTH]}..."


def _verb(method: str) -> str:
    return method.upper() if isinstance(method, str) and method.upper() in METHODS else "(unknown method)"


def entry_for(url: ParsedUrl, method: str) -> EndpointPattern:
    """Return the narrowest entry that covers a request.

    Raises:
        ConfigurationError: no entry can: the method is unknown or the path cannot be a prefix.
    """
    path = url.path if len(url.path) <= _PATH_LENGTH else url.path[: url.path.index("/", 1) + 1]
    return EndpointPattern(
        url.host,
        path_prefix=path,
        methods=(method,),
        ports=() if url.port == DEFAULT_PORTS[url.scheme] else (url.port,),
        schemes=(url.scheme,),
    )


def _network_hint() -> str:
    return (
        "no capability file can allow it; an operator may: unsafe_allowed_networks under [network] in config.toml"
        " (wasmrt doctor shows its folder), or NetworkConfig(unsafe_allowed_networks=...) in Python"
    )


def _denied(reason: Reason, rule: str, subject: str, hint: str | None) -> Decision:
    return Decision(False, reason, rule, hint=hint, capability="http", subject=subject)
