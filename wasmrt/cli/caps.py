"""`wasmrt caps`: write, check, read, compare and learn capability files. Nothing here grants anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wasmrt.cli._errors import DENIED, FAILED
from wasmrt.cli._options import json_option, workspace_option
from wasmrt.cli._output import in_one_line, say, show, show_json, show_section
from wasmrt.errors import SourceError
from wasmrt.files import replace_file

if TYPE_CHECKING:
    from wasmrt.capabilities import Capabilities
    from wasmrt.capabilities.file import CapabilityFile
    from wasmrt.egress import NetworkConfig
    from wasmrt.model import Decision

file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.group("caps")
def caps() -> None:
    """Write, check and explain capability files: what a tool asks for.

    \b
    Examples:
      wasmrt caps init ./search.wasm > search.capabilities.json
      wasmrt caps check search.capabilities.json ./search.wasm
      wasmrt caps explain search.capabilities.json --url https://api.example.com/v1/x --method POST
    """


@caps.command("schema")
@json_option
def schema(as_json: bool) -> None:
    """Print the JSON Schema of capability files, for editors. It is JSON with and without --json.

    \b
    Example:
      wasmrt caps schema > capabilities.schema.json
    """
    from wasmrt.capabilities.sections import capability_schema

    show_json(capability_schema())


@caps.command("check")
@file_argument
@click.argument("tool", required=False, metavar="[NAME_OR_PATH]")
@json_option
def check(file: Path, tool: str | None, as_json: bool) -> None:
    """Report every mistake in a file, what deserves a second look, and the secrets it needs that are not set.

    With a tool, whether the two fit.

    \b
    Examples:
      wasmrt caps check search.capabilities.json
      wasmrt caps check search.capabilities.json ./search.wasm --json
    """
    from wasmrt.capabilities.sentences import review
    from wasmrt.cli._missing import missing_secrets, tell_missing

    asked = _read(file)
    remarks = review(asked, None if tool is None else _imports_of(tool))
    missing = missing_secrets(asked, tool="TOOL" if tool is None else tool)
    if as_json:
        told = {"remarks": [remark.as_dict() for remark in remarks]}
        show_json(told | {"missing_secrets": [secret._asdict() for secret in missing]})
        return
    for remark in remarks:
        show(in_one_line(f"{remark.path}: {remark.message}"))
    say(f"{file.name} is sound" + (f"; {len(remarks)} to look at" if remarks else ""))
    tell_missing(missing)


@caps.command("explain")
@file_argument
@click.option("--url", help="Decide a request to this URL.")
@click.option("--method", help="The request's method; GET unless given.")
@click.option("--resolves-to", multiple=True, metavar="IP", help="An address the URL's host has; may be repeated.")
@click.option("--path", help="Decide reading this workspace path.")
@click.option("--secret", help="Decide asking whether this secret is set.")
@click.option("--alias", help="Decide calling a tool by this alias.")
@json_option
def explain(
    file: Path,
    url: str | None,
    method: str | None,
    resolves_to: tuple[str, ...],
    path: str | None,
    secret: str | None,
    alias: str | None,
    as_json: bool,
) -> int:
    """Say in plain sentences what a file allows, or decide one use of it. Never touches the network.

    A refused use ends with exit code 3 and names the line that would allow it. A --url is decided as `wasmrt run`
    would, under the operator's configuration file; `wasmrt doctor` shows that file.

    \b
    Examples:
      wasmrt caps explain search.capabilities.json
      wasmrt caps explain search.capabilities.json --url https://api.example.com/ --resolves-to 10.0.0.7
    """
    asked = [use for use in (url, path, secret, alias) if use is not None]
    if len(asked) > 1:
        raise click.UsageError("give one of --url, --path, --secret and --alias")
    if url is None and (method is not None or resolves_to):
        raise click.UsageError("--method and --resolves-to say more about a --url; give one")
    _check_addresses(resolves_to)
    granted = _read(file).capabilities
    if not asked:
        from wasmrt.capabilities.sentences import explain as sentences

        said = sentences(granted)
        if as_json:
            show_json({"sentences": said})
        else:
            show("\n".join(map(in_one_line, said)))
        return 0
    if url is not None:
        return _tell_http(granted, method or "GET", url, resolves_to, as_json)
    if path is not None:
        return _tell(granted.explain_workspace(path), as_json)
    if secret is not None:
        return _tell(granted.explain_secret(secret), as_json)
    return _tell(granted.explain_tool(alias or ""), as_json)


def _check_addresses(texts: tuple[str, ...]) -> None:
    from wasmrt.url import AddressClass, classify_address

    for text in texts:
        if classify_address(text) is AddressClass.UNREADABLE:
            raise click.UsageError(f"--resolves-to takes an IP address, not {text!r:.60}")


def _tell_http(granted: Capabilities, method: str, url: str, resolves_to: tuple[str, ...], as_json: bool) -> int:
    """Decide a request with the operator's networks and host table, and say where they decided it."""
    from wasmrt.config_file import read_config_file
    from wasmrt.places import find_places

    file = find_places().config
    network = read_config_file(file).network
    opened, addresses = network.networks, resolves_to or _in_the_host_table(network, url)
    decision = granted.explain_http(method, url, addresses, unsafe_allowed_networks=opened)
    remark = None
    if decision.allowed:
        if not granted.explain_http(method, url, addresses).allowed:
            remark = f"without unsafe_allowed_networks in {file} it would be denied"
    elif granted.explain_http(method, url, resolves_to or None, unsafe_allowed_networks=opened).allowed:
        remark = f"without its addresses under hosts in {file} it would be allowed"
    return _tell(decision, as_json, remark)


def _in_the_host_table(network: NetworkConfig, url: str) -> tuple[str, ...] | None:
    from wasmrt.config_file import HostsResolver
    from wasmrt.url import InvalidUrlError, parse_url

    if not isinstance(network.resolver, HostsResolver):
        return None
    try:
        return network.resolver.known(parse_url(url).host)
    except InvalidUrlError:
        return None


def _tell(decision: Decision, as_json: bool, remark: str | None = None) -> int:
    if as_json:
        show_json(decision.as_dict() | {"remark": remark})
    else:
        show(in_one_line(f"{'allowed' if decision.allowed else 'denied'}: {decision.subject or decision.capability}"))
        show(f"by: {decision.rule} ({decision.reason})")
        if decision.hint:
            say(f"hint: {decision.hint}")
        if remark:
            say(remark)
    return 0 if decision.allowed else DENIED


@caps.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@json_option
def diff(old: Path, new: Path, as_json: bool) -> int:
    """Say what NEW allows beyond OLD, and what it no longer allows. Exit code 1 where anything got wider.

    \b
    Example:
      wasmrt caps diff search-1.capabilities.json search-2.capabilities.json
    """
    from wasmrt.capabilities.sentences import diff as compare

    changes = compare(_read(old).capabilities, _read(new).capabilities)
    if as_json:
        show_json(changes.as_dict())
    else:
        show_section("wider", [f"{change.section}: {change.sentence}" for change in changes.widened])
        show_section("narrower", [f"{change.section}: {change.sentence}" for change in changes.narrowed])
        if not changes:
            say("both allow the same")
    return FAILED if changes.widened else 0


@caps.command("fmt")
@file_argument
@click.option("--write", is_flag=True, help="Write it back instead of printing it.")
@json_option
def fmt(file: Path, write: bool, as_json: bool) -> None:
    """Print a file in its one spelling: known order, defaults left out. It is JSON with and without --json.

    \b
    Examples:
      wasmrt caps fmt search.capabilities.json
      wasmrt caps fmt --write search.capabilities.json
    """
    from wasmrt.capabilities.file import format_file

    text = format_file(_read(file))
    if not write:
        show(text.removesuffix("\n"))
        return
    _replace(file, text)
    if as_json:
        show_json({"wrote": file.name})
    else:
        say(f"wrote {file.name}")


def _replace(file: Path, text: str) -> None:
    try:
        replace_file(file.resolve(), text.encode(), mode=None)  # a link stays one
    except OSError as error:
        raise SourceError(f"{file.name!r} cannot be written ({error.strerror})", hint="check who owns it") from error


@caps.command("init")
@click.argument("tool", metavar="NAME_OR_PATH")
@json_option
def init(tool: str, as_json: bool) -> None:
    """Draft a file from what a component imports. The draft allows nothing until its lists are filled.

    \b
    Example:
      wasmrt caps init ./search.wasm > search.capabilities.json
    """
    from wasmrt.capabilities import Capabilities, capabilities_of
    from wasmrt.capabilities.file import as_tree, format_file

    draft = Capabilities.none()
    needs = capabilities_of(_imports_of(tool))
    for power, name in needs.items():
        match power:
            case "http":
                draft = draft.with_http([])
            case "workspace":
                draft = draft.with_workspace_read([])
            case "secrets":
                draft = draft.with_secrets([])
            case "tool_invoke":
                draft = draft.with_tool_invoke({})
            case _:
                say(f"{name} will be refused: no capability file can allow it")
                continue
        say(f"{power}: the component imports {name}; list what it may reach")
    if as_json:
        show_json({"needs": needs, "draft": as_tree(draft)})
    else:
        show(format_file(draft).removesuffix("\n"))
    if draft == Capabilities.none():
        say("the component imports nothing that needs a grant")


@caps.command("learn")
@click.argument("tool", metavar="NAME_OR_PATH")
@click.argument("params", nargs=-1, metavar="[--] JSON...")
@click.option("--user", default="local", show_default=True, help="Whose rate limits count.")
@workspace_option
@json_option
def learn(tool: str, params: tuple[str, ...], user: str, workspace: Path | None, as_json: bool) -> None:
    """Run a tool with no power at all, and propose the narrowest file for what it asked. A person applies it.

    A tool that stops at its first refusal shows one need at a time: add the line, and ask again with `wasmrt run`.
    With --workspace, a tool that looks for files finds the folder, and none of its files may be read.

    \b
    Examples:
      wasmrt caps learn ./search.wasm -- '{"query": "a"}' '{"query": "b"}'
      wasmrt caps learn ./count.wasm --workspace . -- '{"path": "notes/today.md"}'
    """
    from wasmrt.capabilities import propose
    from wasmrt.capabilities.file import as_tree, format_file

    denied = dict.fromkeys(d for text in params or ("{}",) for d in _denials(tool, text, user, workspace))
    for decision in denied:
        say(f"asked: {decision.subject or decision.capability} ({decision.reason}: {decision.rule})")
    if not denied:
        say("the tool asked for nothing")
    proposal = propose(denied)
    if as_json:
        show_json({"asked": [decision.as_dict() for decision in denied], "proposal": as_tree(proposal)})
    else:
        show(format_file(proposal).removesuffix("\n"))


def _denials(tool: str, params: str, user: str, workspace: Path | None) -> list[Decision]:
    """Run once without any grant; every refusal is kept, whether the run ends well or not."""
    from wasmrt.capabilities import Capabilities
    from wasmrt.cli._tools import find_tool, open_runtime, prepare
    from wasmrt.errors import InvalidParametersError, ToolError

    found = find_tool(tool)
    with open_runtime(workspace=workspace) as runtime:
        prepared = prepare(runtime, found.name, found.data, Capabilities.none())
        try:
            decisions = prepared.execute(params, None, user).decisions
        except InvalidParametersError:
            raise
        except ToolError as error:
            say(f"the tool ended with: {error.message}")
            decisions = error.decisions
    return [decision for decision in decisions if not decision.allowed]


def _imports_of(tool: str) -> list[str]:
    from wasmrt.cli._reading import flat, imports_of
    from wasmrt.cli._tools import find_tool, open_runtime, prepare

    found = find_tool(tool)
    with open_runtime() as runtime:
        imports = imports_of(prepare(runtime, found.name, found.data))
    return [*imports, *flat(imports)]


def _read(path: Path) -> CapabilityFile:
    from wasmrt.capabilities.file import parse
    from wasmrt.install import read_capability_file

    return parse(read_capability_file(path))
