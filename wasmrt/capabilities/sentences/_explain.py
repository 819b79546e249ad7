"""Says in sentences that a person can agree to what capabilities allow."""

from __future__ import annotations

from collections.abc import Iterator
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
)
from wasmrt.capabilities.sentences._phrases import (
    format_bytes,
    format_endpoint,
    format_limits,
    format_location,
    format_prefix,
    format_rate,
    join_words,
)


def explain(capabilities: Capabilities) -> tuple[str, ...]:
    """Return everything that a tool may do, a sentence for each capability, the last for all that it may not do."""
    if capabilities.tools is not None:
        return (*_by_tools(capabilities), "no tool may do anything else")
    sentences = _allowed(capabilities)
    sentences.append("may not do anything else" if sentences else "may not do anything outside its sandbox")
    return tuple(sentences)


def tool_groups(capabilities: Capabilities) -> dict[tuple[str, ...], list[str]]:
    """Return the tools of a component by what they may do: sentences, and the names of those that they hold for.

    Capabilities without sections of tools give nothing.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for tool in capabilities.tools or ():
        allowed = _allowed(replace(for_tool(capabilities, tool.name), limits=ToolLimits()))
        groups.setdefault(tuple(allowed), []).append(tool.name)
    return groups


def _by_tools(capabilities: Capabilities) -> Iterator[str]:
    """Yield what every tool may do, then a sentence for each group of tools that may do more."""
    groups = tool_groups(capabilities)
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


def _allowed(capabilities: Capabilities) -> list[str]:
    sentences: list[str] = []
    if capabilities.http is not None:
        sentences += _http_sentences(capabilities.http)
    if (workspace := capabilities.workspace_read) is not None and workspace.allowed_prefixes:
        sentences += [f"may read {format_prefix(prefix)}" for prefix in workspace.allowed_prefixes]
    if (writing := capabilities.workspace_write) is not None and writing.allowed_prefixes:
        sentences += [f"may write {format_prefix(prefix)}" for prefix in writing.allowed_prefixes]
        sentences.append(_writing_sentence(writing))
    if (secrets := capabilities.secrets) is not None and secrets.allowed_names:
        sentences.append(
            f"may ask whether these secrets are set, never what they are: {join_words(secrets.allowed_names)}"
        )
    if (tools := capabilities.tool_invoke) is not None and tools.aliases:
        pairs = join_words(f"{tool} (as {alias})" for alias, tool in tools.aliases)
        sentences.append(f"may call the tools {pairs}, {format_rate(tools.rate_limit)}")
    limits = format_limits(capabilities.limits)
    if limits:
        sentences.append(f"may use {limits}")
    return sentences


def _writing_sentence(writing: WorkspaceWriteCapability) -> str:
    files = "file" if writing.max_files == 1 else "files"
    sentence = (
        f"may write at most {format_bytes(writing.max_bytes)} to {writing.max_files:,} {files} in a call, each of at "
        f"most {format_bytes(writing.max_file_bytes)}"
    )
    return sentence + (", and remove what is there" if writing.remove else "")


def _http_sentences(http: HttpCapability) -> list[str]:
    sentences = []
    for entry in http.allowlist:
        places = [format_location(m) + _where(m, entry) for m in http.credentials if _meet(m, entry)]
        sentences.append(f"may {format_endpoint(entry)}" + (f", {join_words(places)}" if places else ""))
    if sentences:
        sentences.append(
            f"may send those requests {format_rate(http.rate_limit)}, each with at most "
            f"{format_bytes(http.max_request_bytes)} out, {format_bytes(http.max_response_bytes)} back "
            f"and {http.timeout_seconds:g} seconds"
        )
    unused = [m for m in http.credentials if not any(_meet(m, entry) for entry in http.allowlist)]
    sentences += [
        f"has your secret {m.secret_name} for {join_words(m.host_patterns)}, where no request may go" for m in unused
    ]
    return sentences


def _meet(mapping: CredentialMapping, entry: EndpointPattern) -> bool:
    prefix = (entry.path_prefix,) if entry.path_prefix else ()
    hosts = common_hosts(mapping.host_patterns, (entry.host_pattern,))
    return bool(hosts) and common_paths(mapping.path_patterns, prefix) is not None


def _where(mapping: CredentialMapping, entry: EndpointPattern) -> str:
    hosts = common_hosts(mapping.host_patterns, (entry.host_pattern,))
    at = "" if entry.host_pattern in hosts else f" at {join_words(hosts)}"
    paths = common_paths(mapping.path_patterns, (entry.path_prefix,) if entry.path_prefix else ())
    under = "" if not paths or entry.path_prefix in paths else f" under {join_words(paths)}"
    return at + under
