"""The operator's exceptions for responses that cannot be searched for secrets: by host, or by path and content type."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from wasmrt.capabilities import EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import InvalidUrlError, ParsedUrl, parse_url

_SUBTYPE = r"[a-z0-9!#$&^_.+-]+"
_ENTRY = re.compile(
    rf"(?P<host>[^\s/@:*]+|\[[0-9a-f:.]+\])(?P<path>/\S*) (?P<kind>{_SUBTYPE}/(?:\*|{_SUBTYPE}))", re.ASCII | re.I
)
_CONTENT_TYPE = re.compile(rf"{_SUBTYPE}/{_SUBTYPE}", re.ASCII)


class UnscannedResponses(NamedTuple):
    """Responses of one host that are passed on: their paths and their content type."""

    text: str
    """The entry as the operator wrote it."""
    endpoint: EndpointPattern
    kind: str
    """A content type, or all subtypes: `image/*`."""

    def matches(self, url: ParsedUrl, content_type: str) -> bool:
        """Return whether the entry covers a response."""
        if url.host != self.endpoint.host_pattern or not self.endpoint.path_pattern.matches(url.segments):
            return False
        return content_type == self.kind or (self.kind.endswith("/*") and content_type.startswith(self.kind[:-1]))


def find_content_type(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the content type without its parameters, or "" if it is missing, repeated or invalid."""
    values = [value for name, value in headers if name.lower() == b"content-type"]
    kind = values[0].partition(b";")[0].strip().lower().decode("latin-1") if len(values) == 1 else ""
    return kind if _CONTENT_TYPE.fullmatch(kind) else ""


def read_unscanned_responses(entries: object) -> tuple[UnscannedResponses, ...]:
    """Read entries of the form `HOST/PATH TYPE`. A path that ends in `/` covers everything below it.

    Raises:
        ConfigurationError: `entries` is not a list, or an entry is invalid.
    """
    hint = 'write it like unsafe_unscanned_responses = ["files.example.com/releases/ application/zip"]'
    if not isinstance(entries, (list, tuple)):
        raise ConfigurationError("unsafe_unscanned_responses must be a list of texts", hint=hint)
    read = []
    for entry in entries:
        parts = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        if parts is None:
            raise ConfigurationError(
                f"unsafe_unscanned_responses contains {entry!r:.200}, expected a host, a path and a content type",
                hint=hint,
            )
        try:
            endpoint = EndpointPattern.host(parse_url(f"https://{parts['host']}/").host)
            path = parts["path"]
            endpoint = endpoint.with_path_prefix(path) if path.endswith("/") else endpoint.with_path(path)
        except (InvalidUrlError, ConfigurationError) as error:
            message = f"unsafe_unscanned_responses contains {entry!r:.200}: {error}"
            raise ConfigurationError(message, hint=hint) from None
        read.append(UnscannedResponses(entry, endpoint, parts["kind"].lower()))
    return tuple(read)


def read_unscanned_hosts(names: object) -> tuple[str, ...]:
    """Read host names, and return them in the form of a parsed URL's host.

    Raises:
        ConfigurationError: `names` is not a list, or a name is invalid.
    """
    hint = 'write it like unsafe_unscanned_hosts = ["files.example.com"]'
    if not isinstance(names, (list, tuple)):
        raise ConfigurationError("unsafe_unscanned_hosts must be a list of host names", hint=hint)
    hosts = []
    for name in names:
        try:
            hosts.append(parse_url(f"https://{name}/").host)
        except InvalidUrlError:
            raise ConfigurationError(
                f"unsafe_unscanned_hosts contains {name!r:.80}, which is not a host name", hint=hint
            ) from None
    return tuple(hosts)
