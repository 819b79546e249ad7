"""Describe capabilities to users: permissions with their consequences, differences of two versions, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._effects import effects_of
from wasmrt.capabilities._fields import join_path
from wasmrt.capabilities._imports import find_capabilities, import_example, needs_section, uses_section
from wasmrt.capabilities._merge import for_tool
from wasmrt.capabilities._phrases import join_words, name_tools
from wasmrt.capabilities.file import SECTIONS, CapabilityFile
from wasmrt.capabilities.kinds import KINDS, Change, FileWarning, Numbers
from wasmrt.capabilities.kinds._limits import ToolLimits
from wasmrt.capabilities.kinds._login import added_logins, explain_logins
from wasmrt.capabilities.services import Service, known_services
from wasmrt.core.effects import EVERY_EFFECT, Effect, in_words
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.url import Network


@dataclass(frozen=True, slots=True)
class CapabilityDiff:
    """The differences between two versions: permissions that only the new version has, and only the old version has."""

    widened: tuple[Change, ...]
    narrowed: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.widened or self.narrowed)

    def as_dict(self) -> dict[str, Any]:
        """Return the changes as JSON data."""
        return {
            name: [{"section": change.section, "sentence": change.sentence} for change in getattr(self, name)]
            for name in ("widened", "narrowed")
        }


def diff(old: Capabilities, new: Capabilities, *, defaults: ResourceLimits | None = None) -> CapabilityDiff:
    """Compare two versions of capabilities.

    An entry counts as changed unless a single entry of the other version covers it completely.
    """
    limits = defaults or ResourceLimits()
    return CapabilityDiff(
        tuple(_iter_all_added(old, new, limits, narrower=False)),
        tuple(_iter_all_added(new, old, limits, narrower=True)),
    )


def _iter_all_added(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, *, narrower: bool
) -> Iterator[Change]:
    """Yield a change for everything that `after` allows and `before` does not.

    With `narrower`, `after` is the old version, so each change is something that the new version no longer allows.
    """
    numbers = Numbers(narrower=narrower)
    yield from _iter_added(before, after, defaults, numbers)
    yield from added_logins(before.logins, after.logins, narrower=narrower)
    if before.tools is not None or after.tools is not None:
        yield from _iter_added_for_tools(before, after, defaults, numbers)


def _iter_added_for_tools(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, numbers: Numbers
) -> Iterator[Change]:
    """Yield the changes of single tools. A change that several tools have is yielded once, with the names of all."""
    names = {tool.name for tool in (*(before.tools or ()), *(after.tools or ()))}
    changed: dict[Change, list[str]] = {}
    for name in sorted(names):
        was, now = for_tool(before, name), for_tool(after, name)
        held = _find_tool_effects(before, name, was), _find_tool_effects(after, name, now)
        for change in (*_iter_added(was, now, defaults, numbers), *_iter_added_effects(was, *held)):
            changed.setdefault(change, []).append(name)
    if after.tools is None and before.tools is not None:
        yield Change("tools", "every tool has all capabilities of the component")
    for change, tools in changed.items():
        yield Change(f"tools.{tools[0]}.{change.section}", f"{name_tools(tools)}: {change.sentence}")


def _iter_added_effects(was: Capabilities, before: frozenset[Effect], after: frozenset[Effect]) -> Iterator[Change]:
    """Yield a change for each effect in `after` and not in `before` that the old grant `was` already allowed.

    The other added effects come from new entries, which are changes themselves.
    """
    for effect in sorted((after - before) & _find_possible_effects(was)):
        yield Change("effects", f"may {in_words(frozenset({effect}))}, as far as the rest of its grant allows")


def _find_tool_effects(capabilities: Capabilities, name: str, own: Capabilities) -> frozenset[Effect]:
    """Return the effects that calls of the tool `name` can have: the declared effects that its grant `own` allows."""
    declared = next((tool.effects for tool in capabilities.tools or () if tool.name == name), None)
    return _find_possible_effects(own) & (EVERY_EFFECT if declared is None else frozenset(declared))


def _find_possible_effects(own: Capabilities) -> frozenset[Effect]:
    """Return the effects of a grant, or all effects if the grant can call other tools, whose effects are unknown."""
    effects = effects_of(own)
    return EVERY_EFFECT if Effect.INVOKE_TOOL in effects else effects


def _iter_added(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, numbers: Numbers
) -> Iterator[Change]:
    for part in after.parts:
        yield from part.added(before.get(type(part)), numbers)
    yield from after.limits.added(before.limits, defaults, numbers)


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
        return (*_describe_by_tools(capabilities, known, networks), *logins, "no tool may do anything else")
    sentences = [
        *_describe_allowed(capabilities, known, networks),
        *explain_logins(capabilities.logins, services=known),
    ]
    if not sentences:
        return ("may not do anything outside its sandbox: no network, no files, no secrets, no other tools",)
    lacking = _list_lacking(capabilities)
    return (*sentences, *([f"may not {join_words(lacking, 'or')}"] if lacking else []), "may not do anything else")


def explain_added(
    before: Capabilities,
    after: Capabilities,
    *,
    services: Iterable[Service] | None = None,
    networks: Sequence[Network] = (),
) -> tuple[str, ...]:
    """Return the sentences that describe `after` but not `before`, so that the user can review an update.

    If a side has sections for tools, each sentence begins with the tools for which it is new. See `explain` for
    `services` and `networks`. The result is empty if `after` is nowhere wider.
    """
    if not diff(before, after).widened:
        return ()
    known = tuple(known_services() if services is None else services)
    had = explain_logins(before.logins, services=known)
    more = [each for each in explain_logins(after.logins, services=known) if each not in had]
    if before.tools is None and after.tools is None:
        old = _describe_allowed(before, known, networks)
        return (*_remove_known(old, _describe_allowed(after, known, networks)), *more)
    names = {tool.name: None for side in (after, before) for tool in side.tools or ()}
    added: dict[str, list[str]] = {}
    for name in names:
        old, new = (_describe_allowed(_select_tool(side, name), known, networks) for side in (before, after))
        for sentence in _remove_known(old, new):
            added.setdefault(sentence, []).append(name)
    return (*(f"{join_words(tools)} {sentence}" for sentence, tools in added.items()), *more)


def _remove_known(old: Sequence[str], new: Sequence[str]) -> list[str]:
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
        own = _describe_allowed(_select_tool(capabilities, tool.name), known, networks)
        groups.setdefault(tuple(own), []).append(tool.name)
    return groups


def _select_tool(capabilities: Capabilities, name: str) -> Capabilities:
    """Return the capabilities of one tool, without the limits, which apply to every tool."""
    return replace(for_tool(capabilities, name), limits=ToolLimits())


def _list_lacking(capabilities: Capabilities) -> list[str]:
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


def _describe_by_tools(
    capabilities: Capabilities, services: Sequence[Service], networks: Sequence[Network]
) -> Iterator[str]:
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


def _describe_allowed(
    capabilities: Capabilities, services: Sequence[Service], networks: Sequence[Network]
) -> list[str]:
    sentences = [each for part in capabilities.parts for each in part.sentences(services, networks)]
    sentences += _describe_flows(capabilities, networks)
    limits = capabilities.limits.describe()
    return [*sentences, f"may use {limits}"] if limits else sentences


def _describe_flows(capabilities: Capabilities, networks: Sequence[Network]) -> list[str]:
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


_READ_SECTIONS = frozenset({"setup", "$schema", "discovery_summary", "license", "source"})


def review(file: CapabilityFile, imports: Iterable[str] | None = None) -> tuple[FileWarning, ...]:
    """Return warnings about a capability file and, if `imports` are given, about sections that do not fit the imports.

    An import is a name as in the component (`wasmrt:tool/http@0.1.0`), optionally with a function (`#http-request`).
    """
    warnings = [each for part in file.capabilities.parts for each in part.warnings()]
    warnings += _review_sections(file)
    if imports is not None:
        warnings += _review_imports(file.capabilities, imports)
    return tuple(warnings)


def _review_sections(file: CapabilityFile) -> Iterator[FileWarning]:
    places = {"auth": file.auth} | {join_path("logins", login.vendor): login for login in file.logins}
    for at, login in places.items():
        if login and login.oauth and login.oauth.client_secret:
            yield FileWarning(
                f"{at}.oauth.client_secret", 'a client secret in a file is public; use "client_secret_env" instead'
            )
    for name in file.sections:
        if name not in _READ_SECTIONS:
            yield FileWarning(name, f"wasmrt does not act on this section: {SECTIONS[name].about}")


def _review_imports(capabilities: Capabilities, imports: Iterable[str]) -> Iterator[FileWarning]:
    imports = tuple(imports)
    needed, granted = find_capabilities(imports), [part.section for part in capabilities.parts]
    for name in (kind.section for kind in KINDS):
        if needs_section(name, imports, granted):
            yield FileWarning(
                name, f'calls of the import {needed[name]} will be denied, because the file has no section "{name}"'
            )
        if name in granted and not uses_section(name, imports):
            example = import_example(name)
            yield FileWarning(name, f"the section is unused: the component lacks an import for it, such as {example}")
    if needed.get("sockets"):
        yield FileWarning(
            "$", f"the component imports {needed['sockets']}, but sockets are always refused; use HTTP requests instead"
        )
