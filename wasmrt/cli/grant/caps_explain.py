"""`wasmrt caps explain`: describe what a capability file allows, or decide one use of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from wasmrt.agent.config import read_config_file
from wasmrt.capabilities import KINDS, Capabilities, Capability, HttpCapability, for_tool
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.capabilities.sentences import ANYWHERE
from wasmrt.cli.grant.caps_subject import read_subject
from wasmrt.cli.shared.consent import describe_tool, explain_grant
from wasmrt.cli.shared.errors import DENIED
from wasmrt.cli.shared.options import json_option, subject_argument
from wasmrt.cli.shared.output import Style, print_message, show, show_json, show_line
from wasmrt.core.model import Decision
from wasmrt.core.places import find_places
from wasmrt.core.terminal import to_single_line
from wasmrt.core.url import AddressClass, InvalidUrlError, classify_address, parse_url
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.runtime.config_hosts import HostsResolver

F = TypeVar("F", bound=Callable[..., Any])


def _add_use_options(command: F) -> F:
    """Add an option for one use of each kind of capability."""
    for kind in reversed(KINDS):
        name, phrase = kind.use
        command = click.option(f"--{name}", help=f"Decide {phrase}.")(command)
    return command


@click.command("explain")
@subject_argument
@_add_use_options
@click.option("--method", help="Method of the request (default: GET).")
@click.option("--resolves-to", multiple=True, metavar="IP", help="Address of the URL's host; may be repeated.")
@json_option
def explain(
    subject: str,
    method: str | None,
    resolves_to: tuple[str, ...],
    as_json: bool,
    **uses: str | None,
) -> int:
    """Describe what a file allows, or decide one use of it. The network is not used.

    If the use is denied, the exit code is 3, and the output names the line that would allow it. A --url is decided as
    `wasmrt run` decides it, under the configuration file; `wasmrt doctor` shows that file. If a component has sections
    for single tools, the output names the tools for which the use is allowed and denied.

    Instead of a file, you can name a tool: the grant of an installed tool, or the request of a component or package.

    \b
    Examples:
      wasmrt caps explain search.capabilities.json
      wasmrt caps explain search
      wasmrt caps explain grant.json --url https://a.org/ --resolves-to 10.0.0.7
    """
    asked = [(kind, use) for kind in KINDS if (use := uses[kind.use[0]]) is not None]
    if len(asked) > 1:
        options = ", ".join(f"--{kind.use[0]}" for kind in KINDS)
        raise click.UsageError(f"expected only one of {options}")
    url = uses[HttpCapability.use[0]]
    if url is None and (method is not None or resolves_to):
        raise click.UsageError("--method and --resolves-to require --url")
    _check_addresses(resolves_to)
    found = read_subject(subject)
    read = found.granted
    granted = read.capabilities
    if not asked:
        _print_sentences(subject, read, as_json)
        return 0
    if url is not None:
        network = read_config_file(find_places().config).network
        decide = partial(_decide_http, network, method or "GET", url, resolves_to)
    else:
        ((kind, use),) = asked
        decide = partial(_decide_use, kind, use)
    return _print_decisions(_decide_for_tools(granted, found.tool_names, decide), as_json)


def _print_sentences(subject: str, file: CapabilityFile, as_json: bool) -> None:
    name = Path(subject).name.removesuffix(".json").removesuffix(".capabilities").removesuffix(".wasm")
    sentences = explain_grant(file.capabilities)
    if as_json:
        show_json({"name": name, "description": file.description, "sentences": sentences})
        return
    show_line(describe_tool(name, file.description), Style.STRONG)
    for sentence in sentences:
        show_line(sentence, Style.ALARM if ANYWHERE in sentence else Style.PLAIN, indent=2)


def _check_addresses(texts: tuple[str, ...]) -> None:
    for text in texts:
        if classify_address(text) is AddressClass.UNREADABLE:
            raise click.UsageError(f"--resolves-to expects an IP address, got {text!r:.60}")


class Answer(NamedTuple):
    """The decision on one use, and the tools to which it applies; no tools if the file has no sections for tools."""

    decision: Decision
    note: str | None
    tools: tuple[str, ...] = ()


def _decide_for_tools(
    granted: Capabilities, known: Iterable[str], decide: Callable[[Capabilities], tuple[Decision, str | None]]
) -> list[Answer]:
    """Decide for each tool whether one use is allowed. Group tools with equal decisions, allowed ones first.

    `known` are the names of the component's tools. Without sections for tools, all tools have the same capabilities.
    """
    if granted.tools is None:
        return [Answer(*decide(granted))]
    found: dict[tuple[Decision, str | None], list[str]] = {}
    for name in dict.fromkeys([*(tool.name for tool in granted.tools), *known]):
        found.setdefault(decide(for_tool(granted, name)), []).append(name)
    if not found:  # an empty list of tools allows nothing
        found[decide(Capabilities.none())] = []
    answers = [Answer(decision, note, tuple(names)) for (decision, note), names in found.items()]
    return sorted(answers, key=lambda answer: not answer.decision.allowed)


def _decide_use(kind: type[Capability], use: str, granted: Capabilities) -> tuple[Decision, str | None]:
    return granted.explain(kind, use), None


def _decide_http(
    network: NetworkConfig, method: str, url: str, resolves_to: tuple[str, ...], granted: Capabilities
) -> tuple[Decision, str | None]:
    """Decide a request under the configured networks and host table. Add a note if these changed the decision."""
    file = find_places().config
    opened, addresses = network.networks, resolves_to or _find_configured_addresses(network, url)
    decision = granted.explain_http(method, url, addresses, unsafe_allowed_networks=opened)
    note = None
    if decision.allowed:
        if not granted.explain_http(method, url, addresses).allowed:
            note = f"without unsafe_allowed_networks in {file} it would be denied"
    elif granted.explain_http(method, url, resolves_to or None, unsafe_allowed_networks=opened).allowed:
        note = f"without its addresses under hosts in {file} it would be allowed"
    return decision, note


def _find_configured_addresses(network: NetworkConfig, url: str) -> tuple[str, ...] | None:
    if not isinstance(network.resolver, HostsResolver):
        return None
    try:
        return network.resolver.known(parse_url(url).host)
    except InvalidUrlError:
        return None


def _print_decisions(answers: list[Answer], as_json: bool) -> int:
    """Print the decisions. The exit code is 0 if the use is allowed for at least one tool."""
    first = answers[0]
    if as_json:
        by_tool = {name: each.decision.as_dict() for each in answers for name in each.tools}
        show_json(first.decision.as_dict() | {"note": first.note} | ({"tools": by_tool} if by_tool else {}))
    for decision, note, tools in () if as_json else answers:
        names = ", ".join(tools)
        of = f" for {names}" if tools else ""
        show(
            to_single_line(
                f"{'allowed' if decision.allowed else 'denied'}{of}: {decision.subject or decision.capability}"
            )
        )
        show(f"by: {decision.rule} ({decision.reason})")
        if decision.hint and not (tools and first.decision.allowed):
            print_message(f"hint: {decision.hint}")
        if note:
            print_message(note)
    return 0 if first.decision.allowed else DENIED
