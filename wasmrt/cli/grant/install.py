"""`wasmrt install`: a component with its capability file into the catalog, once somebody agreed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from wasmrt.agent.builtin.extensions.installing import component_info
from wasmrt.agent.builtin.extensions.missing import MissingSecret
from wasmrt.capabilities.file import parse
from wasmrt.catalog import Catalog, ComponentInfo, ToolVersion
from wasmrt.catalog.bundled import bundled_names
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.package import PackageSource
from wasmrt.catalog.sources import FileSource, Source, is_package, read_capability_file
from wasmrt.catalog.validator import WasmValidator
from wasmrt.cli.grant.consent import NotGrantedError, ask, print_difference, print_request
from wasmrt.cli.shared.explain import about, explained
from wasmrt.cli.shared.missing import missing_secrets, print_missing
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import is_interactive, print_message, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.settings import ask_settings
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.limits import COMPONENT_MAX_BYTES, COMPONENT_WARN_BYTES
from wasmrt.core.places import find_places
from wasmrt.sandbox.component import ToolSpec


@click.command("install")
@click.argument("source")
@click.option("--name", metavar="NAME", help="What to call it; without it, the file's name.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What it asks for; without it, NAME.capabilities.json beside the component.",
)
@click.option("--grant", type=click.Path(path_type=Path), metavar="FILE", help="Grant no more than this file allows.")
@click.option("--tool", "only", multiple=True, metavar="NAME", help="Grant only this tool of several, or only get_*.")
@click.option("--command", "is_program", is_flag=True, help="It is a program for WASI, with arguments and output.")
@click.option(
    "--adapter",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --command: make a module for WASI preview 1 a component with this adapter.",
)
@click.option("--yes", is_flag=True, help="Grant what it asks for without being asked: for scripts.")
@click.option("--max-bytes", type=click.IntRange(1), default=COMPONENT_MAX_BYTES, help="Refuse larger components.")
@click.option("--warn-bytes", type=click.IntRange(1), default=COMPONENT_WARN_BYTES, help="Warn above this size.")
@json_option
def install(
    source: str,
    name: str | None,
    capabilities: Path | None,
    grant: Path | None,
    only: tuple[str, ...],
    is_program: bool,
    adapter: Path | None,
    yes: bool,
    max_bytes: int,
    warn_bytes: int,
    as_json: bool,
) -> None:
    """Install a tool from a component file, or the tools of a package.

    A package is a folder with a manifest.toml or a wasmrt.toml, that file itself, or an archive (zip, tar.gz).

    It shows what the tool asks for and stores it once you agree. An update that differs from what you agreed to
    waits for a new grant; until then the old version keeps running. The same component with fewer capabilities
    replaces the old version at once. Secrets that the tool needs and that are not set are named, with the command
    that sets each.

    A program for WASI is a tool too: it takes its arguments and its input, and answers with what it prints. With
    --command the file may be a module for WASI preview 1, which is made a component with the Bytecode Alliance's
    adapter, fetched from its registry the first time.

    A tool named like one that comes with wasmrt takes its place only if the name is said with --name, or with --yes.

    \b
    Examples:
      wasmrt install ./search.wasm
      wasmrt install ./search.wasm --name find --capabilities mine.json --yes
      wasmrt install ./search.wasm --grant narrower.json
      wasmrt install ./jq.wasm --command
      wasmrt install ./github.zip --tool 'get_*' --tool 'list_*'
    """
    if "://" in source:
        raise SourceError("a tool can be installed from a file only", hint="download it first, and its sidecar")
    validator = WasmValidator(warn_bytes=warn_bytes, max_bytes=max_bytes)
    installer = Installer(Catalog(find_places().data), prepare=_read, validator=validator)
    narrowed = None if grant is None else read_capability_file(grant)
    if adapter is not None and not is_program:
        raise ConfigurationError("--adapter is for a program for WASI", code="usage", hint="say --command too")
    if is_program:
        chosen = _program(Path(source), capabilities, adapter, yes=yes, as_json=as_json)
    else:
        chosen = _source(Path(source), capabilities)
    plan = installer.plan(chosen, name=name, grant=narrowed, only=only)
    shadowing = _shadowing(plan)
    warnings = [*plan.warnings, *shadowing]
    may_ask = is_interactive() and not as_json
    if not as_json:
        _print_plan(plan, warnings)
    if shadowing and name is None and not yes:
        _agree_to_shadow(plan.new.name, may_ask=may_ask)
    version = _decide(installer, plan, granted=yes, may_ask=may_ask)
    if may_ask and plan.new.package is not None:
        ask_settings(version)
    _report(version, plan, warnings, as_json=as_json)


def _read(name: str, component: ComponentBytes, tools: Sequence[ToolSpec] | None) -> ComponentInfo:
    with open_runtime() as runtime:
        return component_info(prepare(runtime, name, component, tools=tools))


def _source(path: Path, capabilities: Path | None) -> Source:
    if not is_package(path):
        return FileSource(path, capabilities)
    if capabilities is not None:
        raise ConfigurationError("a package says itself what it asks for", hint="narrow it with --grant FILE")
    return PackageSource(path)


def _program(path: Path, capabilities: Path | None, adapter: Path | None, *, yes: bool, as_json: bool) -> Source:
    from wasmrt.cli.grant.install_program import ProgramSource  # with the package that builds tools

    if is_package(path):
        raise ConfigurationError("a package is no program", hint="leave --command out")
    return ProgramSource(file=FileSource(path, capabilities), adapter=adapter, yes=yes, as_json=as_json)


def _report(version: ToolVersion, plan: InstallPlan, warnings: list[str], *, as_json: bool) -> None:
    missing = _missing(plan)
    if as_json:
        outcome = {"unchanged": plan.is_installed, "changes": list(plan.changes), "warnings": warnings}
        show_json(version.as_dict() | outcome | {"missing_secrets": [secret._asdict() for secret in missing]})
        return
    if plan.is_installed:
        print_message(f"{version.name} version {version.number} is installed already")
    else:
        print_message(f"installed {version.name} version {version.number} ({version.digest[:12]})")
    print_missing(missing)


def _shadowing(plan: InstallPlan) -> list[str]:
    name = plan.new.name
    if plan.previous is not None or name not in bundled_names():
        return []
    return [f"{name} is also the name of a tool that comes with wasmrt; wasmrt run {name} will run this one instead"]


def _agree_to_shadow(name: str, *, may_ask: bool) -> None:
    if may_ask and click.confirm(f"Take the place of the bundled {name}?", default=False, err=True):
        return
    raise ConfigurationError(
        f"nothing was installed: {name} comes with wasmrt",
        code="bundled-name",
        hint=f"choose another name with --name, or say --name {name} if it is meant",
    )


def _missing(plan: InstallPlan) -> list[MissingSecret]:
    sidecar = plan.new.sidecar
    if sidecar is None:
        return []
    return missing_secrets(parse(sidecar), granted=plan.grant, tool=plan.new.name)


def _print_plan(plan: InstallPlan, warnings: Iterable[str]) -> None:
    for warning in warnings:
        print_message(f"warning: {warning}")
    if plan.is_installed:
        return
    if plan.previous is not None:
        title = f"{plan.new.name} differs from version {plan.previous.number}:"
        print_difference(title, plan.changes[: plan.more], plan.changes[plan.more :])
    print_request(about(plan.new.name, _description(plan)), explained(plan.grant))


def _description(plan: InstallPlan) -> str:
    """Return what a tool says of itself; its capability file's words come first, since a person wrote these."""
    sidecar = plan.new.sidecar
    written = None if sidecar is None else parse(sidecar).description
    return written or plan.new.info.description


def _decide(installer: Installer, plan: InstallPlan, *, granted: bool, may_ask: bool) -> ToolVersion:
    name = plan.new.name
    if granted or not plan.needs_decision:
        return installer.accept(plan)
    if may_ask:
        ask(name)
        return installer.accept(plan)
    if plan.previous is None:
        raise NotGrantedError(
            f"{name} was not installed: nobody is here to grant what it asks for",
            hint="read what it asks for, then install it with --yes",
            asks=explained(plan.grant),
        )
    pending = installer.store_pending(plan)
    raise NotGrantedError(
        f"version {pending.number} of {name} waits for a grant; version {plan.previous.number} keeps running",
        hint=f"wasmrt grant {name}",
        asks=explained(plan.grant),
        changes=plan.changes,
    )
