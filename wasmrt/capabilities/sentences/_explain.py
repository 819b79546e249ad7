"""Says in sentences that a person can agree to what capabilities allow, and what that means for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.lattice import for_tool
from wasmrt.capabilities.model import (
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    ToolLimits,
    WorkspaceWriteCapability,
    common_hosts,
    common_paths,
    protected_problem,
)
from wasmrt.capabilities.sentences._logins import explain_logins
from wasmrt.capabilities.sentences._meaning import flows, meanings
from wasmrt.capabilities.sentences._phrases import (
    format_bytes,
    format_endpoint,
    format_host,
    format_limits,
    format_location,
    format_prefix,
    format_rate,
    format_seconds,
    join_words,
)
from wasmrt.capabilities.sentences._reach import Reach, reaches
from wasmrt.capabilities.services import Service, known_services
from wasmrt.core.url import Network


def explain(
    capabilities: Capabilities, *, services: Iterable[Service] | None = None, networks: Sequence[Network] = ()
) -> tuple[str, ...]:
    """Return everything that a tool may do, the last sentence for all that it may not do.

    First what it means at services that are known (`services` are others than those that ship), then each capability,
    then what may go where. No power is told that the runtime would refuse; `networks` are the internal ones that an
    operator exempts.

    Example:
        >>> from wasmrt import Capabilities, explain
        >>> explain(Capabilities.none().with_workspace_read(["reports/"]))[0]
        'may read files under reports/'
    """
    known = tuple(known_services() if services is None else services)
    if capabilities.tools is not None:
        logins = explain_logins(capabilities.logins, services=known)
        return (*_by_tools(capabilities, known, networks), *logins, "no tool may do anything else")
    sentences = [*_allowed(capabilities, known, networks), *explain_logins(capabilities.logins, services=known)]
    if not sentences:
        return ("may not do anything outside its sandbox: no network, no files, no secrets, no other tools",)
    lacking = _lacking(capabilities)
    return (*sentences, *([f"may not {join_words(lacking, 'or')}"] if lacking else []), "may not do anything else")


def tool_groups(
    capabilities: Capabilities, *, services: Iterable[Service] | None = None, networks: Sequence[Network] = ()
) -> dict[tuple[str, ...], list[str]]:
    """Return the tools of a component by what they may do: sentences, and the names of those that they hold for.

    Capabilities without sections of tools give nothing. The rest is as for `explain`.
    """
    known = tuple(known_services() if services is None else services)
    groups: dict[tuple[str, ...], list[str]] = {}
    for tool in capabilities.tools or ():
        own = replace(for_tool(capabilities, tool.name), limits=ToolLimits())
        groups.setdefault(tuple(_allowed(own, known, networks)), []).append(tool.name)
    return groups


def _lacking(capabilities: Capabilities) -> list[str]:
    """Return the kinds of things that capabilities allow none of, for the sentence that says so."""
    http, read, write = capabilities.http, capabilities.workspace_read, capabilities.workspace_write
    files = [verb for verb, part in (("read", read), ("write", write)) if part is None or not part.allowed_prefixes]
    secrets, tools = capabilities.secrets, capabilities.tool_invoke
    return [
        *([f"send anything over the network{' itself' * bool(tools)}"] if http is None or not http.allowlist else []),
        *([f"{' or '.join(files)} files"] if files else []),
        *(["ask which secrets are set"] if secrets is None or not secrets.allowed_names else []),
        *(["call other tools"] if tools is None or not tools.aliases else []),
    ]


def _by_tools(capabilities: Capabilities, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
    """Yield what every tool may do, then a sentence for each group of tools that may do more."""
    groups = tool_groups(capabilities, services=services, networks=networks)
    every = [each for each in next(iter(groups), ()) if all(each in allowed for allowed in groups)]
    if every and len(groups) > 1:
        yield f"every tool {'; '.join(every)}"
    for allowed, names in groups.items():
        more = [sentence for sentence in allowed if sentence not in every or len(groups) == 1]
        also = "also " if every and len(groups) > 1 else ""
        if more or not allowed:
            yield f"{join_words(names)} {also}{'; '.join(more) or 'may not do anything outside the sandbox'}"
    limits = format_limits(capabilities.limits)
    if limits:
        yield f"each call may use {limits}"


def _allowed(capabilities: Capabilities, services: Sequence[Service], networks: Sequence[Network]) -> list[str]:
    sentences: list[str] = []
    allowed: list[Reach] = []
    if (http := capabilities.http) is not None:
        found = list(reaches(http, networks))
        allowed = [reach for reach in found if not reach.refused]
        sentences += meanings(allowed, services)
        sentences += _http_sentences(http, found)
    if (workspace := capabilities.workspace_read) is not None and workspace.allowed_prefixes:
        sentences += [f"may read {format_prefix(prefix)}" for prefix in workspace.allowed_prefixes]
    if (writing := capabilities.workspace_write) is not None and writing.allowed_prefixes:
        sentences += _writing_sentences(writing)
    if (secrets := capabilities.secrets) is not None and secrets.allowed_names:
        sentences.append(
            f"may ask whether these secrets are set, never what they are: {join_words(secrets.allowed_names)}"
        )
    if (tools := capabilities.tool_invoke) is not None and tools.aliases:
        pairs = join_words(f"{tool} (as {alias})" for alias, tool in tools.aliases)
        sentences.append(f"may call the tools {pairs}, {format_rate(tools.rate_limit)}")
    sentences += flows(capabilities, allowed)
    limits = format_limits(capabilities.limits)
    if limits:
        sentences.append(f"may use {limits}")
    return sentences


def _writing_sentences(writing: WorkspaceWriteCapability) -> Iterator[str]:
    written = [prefix for prefix in writing.allowed_prefixes if not prefix or protected_problem(prefix) is None]
    for prefix in writing.allowed_prefixes:
        if prefix not in written:
            yield f"asks to write {format_prefix(prefix)}, which is refused: {protected_problem(prefix)}"
        else:
            yield f"may write {format_prefix(prefix)}" + ("" if prefix else ", but for those that say what an agent is")
    if not written:
        return
    files = "file" if writing.max_files == 1 else "files"
    yield (
        f"may write at most {format_bytes(writing.max_bytes)} to {writing.max_files:,} {files} in a call, each of at "
        f"most {format_bytes(writing.max_file_bytes)}{', and remove what is there' if writing.remove else ''}"
    )


def _http_sentences(http: HttpCapability, found: Sequence[Reach]) -> Iterator[str]:
    for reach in found:
        entry = reach.entry
        places = [format_location(m) + _where(m, entry) for m in reach.credentials]
        if reach.refused:
            yield f"asks to {format_endpoint(entry)}, which is refused: {reach.refused}"
        else:
            yield f"may {format_endpoint(entry)}" + (f", {join_words(places)}" if places else "")
    if any(not reach.refused for reach in found):
        yield (
            f"may send those requests {format_rate(http.rate_limit)}, each with at most "
            f"{format_bytes(http.max_request_bytes)} out, {format_bytes(http.max_response_bytes)} back "
            f"and {format_seconds(http.timeout_seconds)}"
        )
    used = [mapping for reach in found for mapping in reach.credentials]
    for mapping in http.credentials:
        if mapping not in used:
            yield (
                f"has your secret {mapping.secret_name} for {join_words(map(format_host, mapping.host_patterns))}, "
                "where no request may go"
            )


def _where(mapping: CredentialMapping, entry: EndpointPattern) -> str:
    hosts = common_hosts(mapping.host_patterns, (entry.host_pattern,))
    at = "" if entry.host_pattern in hosts else f" at {join_words(hosts)}"
    if entry.path is not None:
        return at
    paths = common_paths(mapping.path_patterns, (entry.path_prefix,) if entry.path_prefix else ())
    under = "" if not paths or entry.path_prefix in paths else f" under {join_words(paths)}"
    return at + under
