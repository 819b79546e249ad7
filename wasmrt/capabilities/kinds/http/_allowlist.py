"""Decide whether an allowlist covers a request, and whether its host is public. Suggest the entry that would allow it.

The text of a decision is ASCII, without parts of a URL that often contain secrets. Callers scan it, then truncate it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

from wasmrt.capabilities.model import (
    ANY_SEGMENT,
    METHODS,
    CredentialMapping,
    EndpointPattern,
    exposed_credential,
    host_matches,
)
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_URL_BYTES
from wasmrt.core.model import Addition, Decision, Exemption, GrantList, Reason, Step, Suggestion
from wasmrt.core.url import (
    DEFAULT_PORTS,
    AddressClass,
    InvalidUrlError,
    Network,
    ParsedUrl,
    classify_address,
    is_exempt,
    parse_address,
    parse_networks,
    parse_url,
)

ALLOWLIST = GrantList("http.allowlist")

_PATH_LENGTH = 512
_PRIVATE_NAMES = ("localhost", "localdomain", "local", "internal", "home.arpa")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://")
_PUBLIC_ALONE = Step("use a tool whose capability file lists this host; this entry only allows public addresses")
# The reasons in the order of the checks. The entry that passes the most checks determines the reason of a denial.
_STAGES = (
    Reason.HOST_NOT_ALLOWED,
    Reason.INSECURE_SCHEME,
    Reason.PORT_NOT_ALLOWED,
    Reason.PATH_NOT_ALLOWED,
    Reason.METHOD_NOT_ALLOWED,
)
_RULES = {
    Reason.HOST_NOT_ALLOWED: "no entry of http.allowlist covers this host",
    Reason.INSECURE_SCHEME: "requests must use https unless an entry of http.allowlist allows http",
    Reason.PORT_NOT_ALLOWED: "the entries for this host cover other ports",
    Reason.PATH_NOT_ALLOWED: "the entries for this host cover other paths",
    Reason.METHOD_NOT_ALLOWED: "the entries for this host and path cover other methods",
}


class AllowlistValidator:
    """Check URLs against an allowlist, without network access.

    `networks` are the internal networks that the operator exempts, and `credentials` are the credentials of the grant.
    Both do not affect decisions, only suggestions: an entry is not suggested if the request would still be refused
    because of an address or a credential.
    """

    __slots__ = ("_credentials", "_networks", "_patterns")

    def __init__(
        self,
        patterns: Iterable[EndpointPattern],
        networks: Sequence[Network] = (),
        credentials: Sequence[CredentialMapping] = (),
    ) -> None:
        self._patterns = tuple(patterns)
        self._networks = networks
        self._credentials = credentials

    def validate(self, url: str, method: str = "GET") -> Decision:
        """Decide whether a URL as written by a guest is allowed."""
        if not self._patterns:
            suggestion = self._suggest_for_text(url, method)
            return _make_denial(Reason.EMPTY_ALLOWLIST, "http.allowlist is empty", "", suggestion)
        try:
            return self.check(parse_url(url), method)
        except InvalidUrlError as problem:
            return _make_denial(Reason.INVALID_URL, problem.message, describe_unread(url, method), problem.hint)

    def check(self, url: ParsedUrl, method: str) -> Decision:
        """Decide whether a parsed URL is allowed; the caller then sends the same parsed value."""
        subject = describe_request(url, method)
        verb = method.upper() if isinstance(method, str) else ""
        if verb not in METHODS:
            rule = f"the method is not one of {', '.join(METHODS)}"
            return _make_denial(Reason.METHOD_NOT_ALLOWED, rule, subject, "use one of these methods")
        if not self._patterns:
            return _make_denial(Reason.EMPTY_ALLOWLIST, "http.allowlist is empty", subject, self._suggest(url, verb))
        closest = -1
        for index, pattern in enumerate(self._patterns):
            failed = _find_mismatch(pattern, url, verb)
            if failed is None:
                rule = f"http.allowlist[{index}]"
                return Decision(True, Reason.ALLOWED, rule, capability="http", subject=subject)
            closest = max(closest, _STAGES.index(failed))
        if url.scheme == "http" and not any("http" in pattern.schemes for pattern in self._patterns):
            closest = _STAGES.index(Reason.INSECURE_SCHEME)
        reason = _STAGES[closest]
        return _make_denial(reason, _RULES[reason], subject, self._suggest(url, verb))

    def get_networks(self, url: ParsedUrl, method: str) -> Sequence[Network]:
        """Return the internal networks to which an allowed request may be sent: those that the operator exempts.

        SECURITY: no exemption applies if all entries that cover the request are for public addresses only. A network
        that the operator exempts for one tool must not become reachable for a tool that may request any public host.
        """
        return () if self._is_public_alone(url, method) else self._networks

    def with_step(self, refused: Decision, url: ParsedUrl, method: str) -> Decision:
        """Replace the suggestion of `refused` if it is an exemption that would not apply to the request."""
        if isinstance(refused.suggestion, Exemption) and self._is_public_alone(url, method):
            return refused._replace(suggestion=_PUBLIC_ALONE)
        return refused

    def _is_public_alone(self, url: ParsedUrl, method: str) -> bool:
        if not any(pattern.public_only for pattern in self._patterns):
            return False
        covering = [p for p in self._patterns if _find_mismatch(p, url, method.upper()) is None]
        return bool(covering) and all(pattern.public_only for pattern in covering)

    def _suggest(self, url: ParsedUrl, method: str) -> Suggestion | None:
        suggestion = suggest_entry(url, method, self._networks)
        if isinstance(suggestion, Addition) and exposed_credential(self._credentials, url) is not None:
            return Step("request the URL over https, because the request carries a credential")
        return suggestion

    def _suggest_for_text(self, url: str, method: str) -> str | Suggestion | None:
        try:
            return self._suggest(parse_url(url), method)
        except InvalidUrlError as problem:
            return problem.hint


def _find_mismatch(pattern: EndpointPattern, url: ParsedUrl, method: str) -> Reason | None:
    if not host_matches(pattern.host_pattern, url.host):
        return Reason.HOST_NOT_ALLOWED
    if url.scheme not in pattern.schemes:
        # An entry that only allows http covers port 80; an https request to it is not insecure.
        return Reason.INSECURE_SCHEME if url.scheme == "http" else Reason.PORT_NOT_ALLOWED
    if url.port not in pattern.get_ports(url.scheme):
        return Reason.PORT_NOT_ALLOWED
    if not pattern.path_pattern.matches(url.segments):
        return Reason.PATH_NOT_ALLOWED
    if pattern.methods and method not in pattern.methods:
        return Reason.METHOD_NOT_ALLOWED
    return None


def suggest_entry(
    url: ParsedUrl, method: str, networks: Sequence[Network], *, new_section: bool = False
) -> Suggestion | None:
    """Suggest the entry that would allow a request. If no entry can allow the request, suggest a different step."""
    if (refused := check_host(url, networks)) is not None:
        return refused.suggestion
    try:
        entry = _make_entry(url, method)
    except ConfigurationError as problem:
        return Step(f"no entry can cover this request: {problem.message}")
    return Addition(ALLOWLIST, entry.as_line(), new_section)


def _make_entry(url: ParsedUrl, method: str) -> EndpointPattern:
    """Return the narrowest entry that covers a request.

    Raises:
        ConfigurationError: the method is unknown, the path cannot be a prefix, or its first segment is too long.
    """
    path = url.path.replace(ANY_SEGMENT, "%2A")
    if len(path) > _PATH_LENGTH:
        path = path[: path.rindex("/", 0, _PATH_LENGTH) + 1]
        if path == "/":  # an entry for every path would be wider than the request
            raise ConfigurationError(f"the first segment of the path has more than {_PATH_LENGTH} characters")
    return EndpointPattern(
        url.host,
        path_prefix=path,
        methods=(method,),
        ports=() if url.port == DEFAULT_PORTS[url.scheme] else (url.port,),
        schemes=(url.scheme,),
    )


# -- hosts ------------------------------------------------------------------------------------------------------------


def check_host(url: ParsedUrl, networks: Sequence[Network] = ()) -> Decision | None:
    """Return a denial if the host is recognizably internal without a DNS lookup, or None.

    Internal names are reserved by RFC 6761 (localhost), RFC 6762 (local), RFC 8375 (home.arpa) and ICANN (internal).
    """
    rule = explain_internal_host(url.host, networks)
    if rule is None:
        return None
    address = parse_address(url.host)
    return _make_denial(
        Reason.ADDRESS_NOT_ALLOWED, rule, url.origin, _make_exemption(None if address is None else str(address))
    )


def explain_internal_host(host: str, networks: Sequence[Network] = ()) -> str | None:
    """Return the reason why a host or host pattern in canonical spelling is internal, or None if it is not internal."""
    if (address := parse_address(host)) is not None:
        return _find_address_problem(address, networks)
    last_two = host.split(".")[-2:]
    private = last_two[-1] in _PRIVATE_NAMES or ".".join(last_two) in _PRIVATE_NAMES
    return "the host name is reserved for private networks" if private and not networks else None


def check_addresses(addresses: Iterable[str], networks: Iterable[Network | str] = (), subject: str = "") -> Decision:
    """Decide whether a request may be sent to a host with these addresses.

    The host must have an address, and each address must be public or in one of the exempted `networks`.
    """
    exempt = parse_networks(networks)
    count = 0
    for address in addresses:
        count += 1
        if (problem := _find_address_problem(address, exempt)) is not None:
            return _make_denial(Reason.ADDRESS_NOT_ALLOWED, problem, subject, _make_exemption(address))
    if not count:
        return _make_denial(Reason.NO_ADDRESS, "the host has no address", subject, "check the host's name")
    return Decision(True, Reason.ALLOWED, "every address is public or exempt", capability="http", subject=subject)


def _find_address_problem(address: str | IPv4Address | IPv6Address, exempt: Sequence[Network]) -> str | None:
    kind = classify_address(address)
    if kind is AddressClass.PUBLIC or (kind is not AddressClass.UNREADABLE and is_exempt(address, exempt)):
        return None
    shown = str(address) if kind is not AddressClass.UNREADABLE else "a DNS answer that is not an address"
    return f"{shown} is {kind}, not public"


def _make_exemption(address: str | None) -> Exemption:
    """Return the exemption for the network with only this address, or for no network if the address is not valid."""
    kind = AddressClass.UNREADABLE if address is None else classify_address(address)
    if address is None or kind in (AddressClass.UNREADABLE, AddressClass.PUBLIC):
        return Exemption(None)
    return Exemption(f"{address}/{128 if ':' in address else 32}")


# -- the text of a decision --------------------------------------------------------------------------------------------


def describe_request(url: ParsedUrl, method: str) -> str:
    """Return the method and URL of a request, without its query."""
    return f"{_get_verb(method)} {url.origin}{url.path}"


def describe_unread(url: object, method: str, redact: Callable[[str], str] = str) -> str:
    """Describe a request whose URL cannot be parsed, without the URL's query, fragment, user name and password.

    Non-printable characters are removed before `redact` is called, because they could hide a secret from `redact`.
    """
    text = url if isinstance(url, str) else ""
    scheme = found[0] if (found := _SCHEME.match(text)) else ""
    rest = text[len(scheme) :]
    shown = re.split(r"[?#]", rest, maxsplit=1)[0]
    if "@" in rest:  # a password may contain `/?#`: omit everything before the last `@`, and any query
        shown = f"...{shown[shown.rindex('@') :]}" if shown.count("@") == rest.count("@") else "..."
    text = redact("".join(c for c in f"{scheme}{shown}"[:MAX_URL_BYTES] if c.isprintable()))
    return f"{_get_verb(method)} {text.encode('ascii', 'backslashreplace').decode('ascii')}".rstrip()


def _get_verb(method: str) -> str:
    return method.upper() if isinstance(method, str) and method.upper() in METHODS else "(unknown method)"


def _make_denial(reason: Reason, rule: str, subject: str, hint: str | Suggestion | None) -> Decision:
    return Decision(False, reason, rule, hint, "http", subject)
