"""Describe capabilities in sentences to which a user can agree: the permissions and their consequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._merge import for_tool
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.kinds import KINDS
from wasmrt.capabilities.kinds._limits import ToolLimits
from wasmrt.capabilities.kinds._login import explain_logins
from wasmrt.capabilities.sentences._diff import diff
from wasmrt.capabilities.services import Service, known_services
from wasmrt.core.url import Network


def explain(
    capabilities: Capabilities, *, services: Iterable[Service] | None = None, networks: Sequence[Network] = ()
) -> tuple[str, ...]:
    """Return sentences on everything that a tool may do, followed by the permissions that the tool does not have.

    The first sentences describe the effects at known services (`services` replaces the built-in services). Sentences
    for each capability and for possible data flows follow. Entries are described as refused if the runtime refuses
    their requests. `networks` are the internal networks that the operator exempts from the address check.

    Examples:
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


def explain_added(
    before: Capabilities,
    after: Capabilities,
    *,
    services: Iterable[Service] | None = None,
    networks: Sequence[Network] = (),
) -> tuple[str, ...]:
    """Return the sentences on permissions of `after` that do not describe `before`, for the user to review an update.

    If a side has sections for tools, each sentence begins with the tools for which it is new. See `explain` for
    `services` and `networks`. The result is empty if `after` is nowhere wider.
    """
    if not diff(before, after).widened:
        return ()
    known = tuple(known_services() if services is None else services)
    had = explain_logins(before.logins, services=known)
    more = [each for each in explain_logins(after.logins, services=known) if each not in had]
    if before.tools is None and after.tools is None:
        old = _allowed(before, known, networks)
        return (*_only_new(old, _allowed(after, known, networks)), *more)
    names = {tool.name: None for side in (after, before) for tool in side.tools or ()}
    added: dict[str, list[str]] = {}
    for name in names:
        old, new = (_allowed(_section(side, name), known, networks) for side in (before, after))
        for sentence in _only_new(old, new):
            added.setdefault(sentence, []).append(name)
    return (*(f"{join_words(tools)} {sentence}" for sentence, tools in added.items()), *more)


def _only_new(old: Sequence[str], new: Sequence[str]) -> list[str]:
    return [sentence for sentence in new if sentence not in old and not sentence.startswith("may not ")]


def tool_groups(
    capabilities: Capabilities, *, services: Iterable[Service] | None = None, networks: Sequence[Network] = ()
) -> dict[tuple[str, ...], list[str]]:
    """Group the tools of a component by their permissions: map the sentences of each group to the names of its tools.

    The result is empty if the component has no sections for tools. See `explain` for `services` and `networks`.
    """
    known = tuple(known_services() if services is None else services)
    groups: dict[tuple[str, ...], list[str]] = {}
    for tool in capabilities.tools or ():
        own = _allowed(_section(capabilities, tool.name), known, networks)
        groups.setdefault(tuple(own), []).append(tool.name)
    return groups


def _section(capabilities: Capabilities, name: str) -> Capabilities:
    """Return the capabilities of one tool, without the limits, which apply to every tool."""
    return replace(for_tool(capabilities, name), limits=ToolLimits())


def _lacking(capabilities: Capabilities) -> list[str]:
    """Return phrases for the kinds of actions that the capabilities do not allow, such as `read files`."""
    verbs: dict[str, list[str]] = {}
    for kind in KINDS:
        part = capabilities.get(kind)
        if part is None or part.is_empty():
            verb, on = kind.act
            verbs.setdefault(on, []).append(verb)
    reached = [name for part in capabilities.parts for name in part.flow(()).out]
    itself = " itself" if reached else ""
    return [f"{' or '.join(verb)} {on}{itself if on.endswith('network') else ''}" for on, verb in verbs.items()]


def _by_tools(capabilities: Capabilities, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
    """Yield the sentences that apply to every tool, then one sentence for each group of tools that may do more."""
    groups = tool_groups(capabilities, services=services, networks=networks)
    every = [each for each in next(iter(groups), ()) if all(each in allowed for allowed in groups)]
    if every and len(groups) > 1:
        yield f"every tool {'; '.join(every)}"
    for allowed, names in groups.items():
        more = [sentence for sentence in allowed if sentence not in every or len(groups) == 1]
        also = "also " if every and len(groups) > 1 else ""
        if more or not allowed:
            yield f"{join_words(names)} {also}{'; '.join(more) or 'may not do anything outside the sandbox'}"
    limits = capabilities.limits.describe()
    if limits:
        yield f"each call may use {limits}"


def _allowed(capabilities: Capabilities, services: Sequence[Service], networks: Sequence[Network]) -> list[str]:
    sentences = [each for part in capabilities.parts for each in part.sentences(services, networks)]
    sentences += _flows(capabilities, networks)
    limits = capabilities.limits.describe()
    return [*sentences, f"may use {limits}"] if limits else sentences


def _flows(capabilities: Capabilities, networks: Sequence[Network]) -> list[str]:
    """Return sentences on the destinations to which a tool can send data that it reads.

    Hosts for GET requests are destinations, too, because the path and query of a request can carry data.
    """
    flows = [part.flow(networks) for part in capabilities.parts]
    out = [name for flow in flows for name in flow.out]
    if not out:
        return []
    read = join_words(flow.reads for flow in flows if flow.reads)
    sent = f"its parameters {f'and data that it reads {read} ' if read else ''}can go to {join_words(out)}"
    private = [name for flow in flows for name in flow.private]
    others = [name for name in out if private != [name]]
    if not private or not others:
        return [sent]
    ends = join_words(others) if len(private) == 1 else "every other of these"
    return [sent, f"data from {join_words(private, 'or')} with your secrets can go to {ends}"]
