"""Search the lists of tools that the operator names, for `wasmrt search` and the agent's `tool_search`."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wasmrt.agent.builtin.ranking import rank_rows
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.registry import Access, Download, Listed, list_tools, with_tag
from wasmrt.core.errors import SourceError
from wasmrt.core.lifetime import Lifetime
from wasmrt.egress.gateway import EgressGateway, HttpRequest, HttpResponse, download_for_user, send_for_user

_MAX_FOUND = 20
_MAX_LISTED = 50_000
"""Maximum number of tools in all lists of one search."""
_NAME = "tool_search"
_REQUEST_SECONDS = 15.0
"""Time limit, in seconds, of one request. An agent's search sends no request if less time is left."""


class Lists(NamedTuple):
    """The operator's lists, and the functions that read and download lists."""

    sources: tuple[str, ...]
    access: Access
    download: Download


class Found(NamedTuple):
    """The result of a search. All texts that describe tools are untrusted."""

    tools: tuple[Listed, ...]
    more: int
    """Number of matching tools that `tools` leaves out."""
    problems: tuple[str, ...]
    """Sentences about lists and entries that could not be read."""
    is_readable: bool
    """False if no list could be read."""


def search_lists(words: str, lists: Lists) -> Found:
    """Return the listed tools that match words, each with its highest version if a registry lists its versions."""
    listed: list[Listed] = []
    problems: list[str] = []
    for source in lists.sources:
        shown = source if "://" in source else Path(source).name
        try:
            listing = list_tools(source, lists.access, lists.download)
        except SourceError as error:
            problems.append(f"{shown} cannot be searched: {error.message}")
            continue
        listed += listing.tools[: _MAX_LISTED - len(listed)]
        problems += [f"{shown}: {problem}" for problem in listing.problems]
    ranked = [Listed(**row) for row in rank_rows(words, [tool._asdict() for tool in listed])]
    found = []
    for tool in ranked[:_MAX_FOUND]:
        try:
            found.append(with_tag(tool, lists.access))
        except SourceError as error:
            problems.append(f"{tool.reference} has no list of tags: {error.message}")
    tools = tuple(tool for tool in found if tool is not None)
    return Found(tools, len(ranked[_MAX_FOUND:]), tuple(problems), bool(listed or not problems))


def lists_for_agent(gateway: EgressGateway, policy: InstallPolicy, user: str, lifetime: Lifetime) -> Lists:
    """Return the operator's lists for a search by a user's agent.

    SECURITY: the agent's query is not sent to any host. Registries get no login, because other users share the results.
    """

    def check(url: str) -> None:
        lifetime.check()
        if lifetime.remaining() < _REQUEST_SECONDS:
            raise SourceError("the lists before it took too long", code="timeout", hint="search again later")
        policy.check_source(url)

    def send(
        origin: str, method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        check(url)
        request = HttpRequest(method, url, headers, body, timeout_seconds=_REQUEST_SECONDS)
        return send_for_user(gateway, origin, request, name=_NAME, user=user, max_bytes=max_bytes)

    def download(url: str, max_bytes: int) -> bytes:
        return download_for_user(
            gateway, url, name=_NAME, user=user, max_bytes=max_bytes, check=check, timeout_seconds=_REQUEST_SECONDS
        )

    access = Access(lambda reference: nullcontext(partial(send, reference.origin)), lambda _host: None)
    return Lists(policy.search, access, download)
