"""Find a call's method, hosts, recipients, paths and command. They decide which later calls a session answer covers.

As in flow tracking, only the names and values of parameters count: the tool's author writes schema and description.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wasmrt.agent.flows import Destination, Kind, find_outgoing, is_email
from wasmrt.core.effects import NETWORKING, Effect
from wasmrt.core.url import InvalidUrlError, parse_url

_METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
_METHOD_NAMES = ("method", "http_method", "verb")
_CHOICES = frozenset(["method", "http_method", "verb", "action", "operation", "command", "cmd", "mode", "type", "kind"])
"""Parameters that choose what a call does. A session answer applies only to the same values."""
_COMMANDS = ("command", "cmd", "script", "code", "program")
_RECIPIENTS = frozenset(["to", "cc", "bcc", "recipient", "recipients", "email", "emails"])
_LOCAL_FILE = re.compile(r"(?:(?i:file)):///[\w/.%+ -]*")
FILE_EFFECTS = frozenset({Effect.READ_FILESYSTEM, Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM})
RUNNING = frozenset({Effect.SPAWN_PROCESS, Effect.EXECUTE_CODE})
_OUTWARD = frozenset({Effect.EXTERNAL_WRITE, Effect.FINANCIAL, Effect.MODIFY_TOOLS, Effect.DELETE_FILESYSTEM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The parts of a call that decide what it changes, and where data goes."""

    method: str = ""
    """The HTTP method in upper case; empty if the call names none."""
    hosts: tuple[str, ...] = ()
    """The hosts of URLs, each with its port if that is not the default. An ambiguous URL is listed as a whole."""
    urls: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    """Mail addresses."""
    others: tuple[str, ...] = ()
    """Other people, accounts and channels."""
    paths: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    command: str = ""
    cut: bool = False
    """True if the call has more values than were searched."""


def find_targets(params: Mapping[str, Any]) -> Targets:
    """Return the targets of a call."""
    found = find_outgoing({}, params)
    by_kind = {kind: [each for each in found.destinations if each.kind is kind] for kind in Kind}
    addresses = [each for each in by_kind[Kind.ADDRESS] if isinstance(each.value, str)]
    mails = [each for each in addresses if is_email(each.value.strip()) and each.param.lower() in _RECIPIENTS]
    urls = tuple(url for url in _distinct_values(by_kind[Kind.URL]) if not _LOCAL_FILE.fullmatch(url))
    return Targets(
        method=_find_method(params),
        hosts=tuple(dict.fromkeys(get_host(url) for url in urls)),
        urls=urls,
        recipients=_distinct_values(mails),
        others=_distinct_values(each for each in by_kind[Kind.ADDRESS] if each not in mails),
        paths=_distinct_values(by_kind[Kind.PATH]),
        amounts=_distinct_values(by_kind[Kind.AMOUNT]),
        command=_find_command(params),
        cut=found.cut,
    )


def network_hosts(params: Mapping[str, Any], effects: Iterable[Effect]) -> tuple[str, ...]:
    """Return the hosts to which a call would connect; none if its effects do not include the network."""
    return find_targets(params).hosts if NETWORKING.intersection(effects) else ()


def get_host(url: str) -> str:
    """Return the host of a URL, followed by its port if that is not the default port.

    SECURITY: different programs find different hosts in some URLs. Such a URL is returned as a whole, so that none of
    its parts is mistaken for its host.
    """
    try:
        return parse_url(url).authority
    except InvalidUrlError:
        return url


def session_reach(params: Mapping[str, Any], effects: frozenset[Effect]) -> str:
    """Return the properties that a later call of the session must share with this call, as canonical JSON.

    They are the method or action, hosts, recipients, amounts and identifiers. Files must be in the same folders, and
    commands must be equal. All other parameters may differ.

    SECURITY: an approval of a POST to one host must not apply to a DELETE, or to another host.
    """
    found = find_outgoing({}, params)
    if found.cut or effects & RUNNING:
        return json.dumps(["params", dict(params)], sort_keys=True)
    only_files = effects <= FILE_EFFECTS
    bound = {name: value for name, value in params.items() if str(name).lower() in _CHOICES}
    reach = sorted(
        {
            json.dumps([each.param, _reach_of(each, only_files=only_files)], sort_keys=True)
            for each in found.destinations
            if each.kind is not Kind.NAME or (effects & _OUTWARD and each.value not in found.bodies)
        }
    )
    return json.dumps([bound, reach], sort_keys=True)


def _reach_of(found: Destination, *, only_files: bool) -> object:
    if found.kind is Kind.URL:
        try:
            return parse_url(found.value).origin
        except InvalidUrlError:
            return found.value
    if found.kind is Kind.PATH and only_files and isinstance(found.value, str):
        path = found.value
        # SECURITY: a path with `..` could leave its folder, so it is compared as a whole.
        return path if ".." in re.split(r"[/\\]", path) else posixpath.dirname(path.rstrip("/")) + "/"
    return found.value


def _find_method(params: Mapping[str, Any]) -> str:
    for name in _METHOD_NAMES:
        value = params.get(name)
        if isinstance(value, str) and value.upper() in _METHODS:
            return value.upper()
    return ""


def _find_command(params: Mapping[str, Any]) -> str:
    for name in _COMMANDS:
        value = params.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return ""


def _distinct_values(found: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.value if isinstance(each.value, str) else json.dumps(each.value) for each in found))
