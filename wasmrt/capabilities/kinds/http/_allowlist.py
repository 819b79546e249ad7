"""Decides whether a request is on an allowlist, and names the entry that would allow it if it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wasmrt.capabilities.kinds.http._hosts import check_host
from wasmrt.capabilities.kinds.http._subjects import describe_request, describe_unread
from wasmrt.capabilities.model import METHODS, CredentialMapping, EndpointPattern, exposed_credential, host_matches
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, Decision, Exemption, GrantList, Reason, Step, Suggestion
from wasmrt.core.url import DEFAULT_PORTS, InvalidUrlError, Network, ParsedUrl, parse_url

_PATH_LENGTH = 512
_PUBLIC_ALONE = Step("use a tool whose capability file names this host: here public addresses alone are asked")
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
    """Checks URLs against an allowlist. Holds no state beyond it and touches no network.

    `networks` are those that an operator exempts, `credentials` those of the grant. They decide nothing here: no entry
    is suggested that would be useless, because the check of addresses or the injector refuses the request.
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
        """Decide a URL as a guest wrote it."""
        if not self._patterns:
            suggestion = self._suggest_for_text(url, method)
            return _denied(Reason.EMPTY_ALLOWLIST, "http.allowlist is empty", "", suggestion)
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
            return _denied(Reason.EMPTY_ALLOWLIST, "http.allowlist is empty", subject, self._suggest(url, verb))
        closest = -1
        for index, pattern in enumerate(self._patterns):
            failed = _first_mismatch(pattern, url, verb)
            if failed is None:
                rule = f"http.allowlist[{index}]"
                return Decision(True, Reason.ALLOWED, rule, capability="http", subject=subject)
            closest = max(closest, _STAGES.index(failed))
        if url.scheme == "http" and not any("http" in pattern.schemes for pattern in self._patterns):
            closest = _STAGES.index(Reason.INSECURE_SCHEME)
        reason = _STAGES[closest]
        return _denied(reason, _RULES[reason], subject, self._suggest(url, verb))

    def networks_for(self, url: ParsedUrl, method: str) -> Sequence[Network]:
        """Return the exempted networks that count for a request on the allowlist.

        SECURITY: none where every entry that covers it is for public addresses only. An operator who exempts a network
        for one tool has not opened it to another that may ask any public host.
        """
        return () if self._is_public_alone(url, method) else self._networks

    def with_step(self, refused: Decision, url: ParsedUrl, method: str) -> Decision:
        """Return a refusal of addresses with the step that would help: an exemption does not, where none counts."""
        if isinstance(refused.suggestion, Exemption) and self._is_public_alone(url, method):
            return refused._replace(suggestion=_PUBLIC_ALONE)
        return refused

    def _is_public_alone(self, url: ParsedUrl, method: str) -> bool:
        covering = [p for p in self._patterns if _first_mismatch(p, url, method.upper()) is None]
        return bool(covering) and all(pattern.public_only for pattern in covering)

    def _suggest(self, url: ParsedUrl, method: str) -> Suggestion | None:
        suggestion = suggest_entry(url, method, self._networks)
        if isinstance(suggestion, Addition) and exposed_credential(self._credentials, url) is not None:
            return Step("ask for the URL over https: a request to it carries a credential")
        return suggestion

    def _suggest_for_text(self, url: str, method: str) -> str | Suggestion | None:
        try:
            return self._suggest(parse_url(url), method)
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
    if not pattern.covers_path(url.segments):
        return Reason.PATH_NOT_ALLOWED if url.segments is not None else Reason.INVALID_URL
    if pattern.methods and method not in pattern.methods:
        return Reason.METHOD_NOT_ALLOWED
    return None


def suggest_entry(
    url: ParsedUrl, method: str, networks: Sequence[Network], *, new_section: bool = False
) -> Suggestion | None:
    """Suggest the entry that would allow a request; a step where no entry can, because of its address or its form."""
    if (refused := check_host(url, networks)) is not None:
        return refused.suggestion
    try:
        entry = _entry_for(url, method)
    except ConfigurationError as problem:
        return Step(f"no entry can cover it: {problem.message}")
    return Addition(GrantList.HTTP, entry.as_line(), new_section)


def _entry_for(url: ParsedUrl, method: str) -> EndpointPattern:
    """Return the narrowest entry that covers a request.

    Raises:
        ConfigurationError: no entry can: the method is unknown, or the path cannot be a prefix or has too long a name.
    """
    path = url.path
    if len(path) > _PATH_LENGTH:
        path = path[: path.rindex("/", 0, _PATH_LENGTH) + 1]
        if path == "/":  # an entry for every path of the host is more than what was asked for
            raise ConfigurationError(f"the path begins with a name of more than {_PATH_LENGTH} characters")
    return EndpointPattern(
        url.host,
        path_prefix=path,
        methods=(method,),
        ports=() if url.port == DEFAULT_PORTS[url.scheme] else (url.port,),
        schemes=(url.scheme,),
    )


def _denied(reason: Reason, rule: str, subject: str, hint: str | Suggestion | None) -> Decision:
    return Decision(False, reason, rule, hint, "http", subject)
