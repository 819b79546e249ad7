"""`wasmrt install`: install a component with its capability file, after the user grants its request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.builtin.extensions.installing import component_info
from wasmrt.catalog import ComponentInfo, TypedSource
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.lock import LOCK_FILE, LockedSource, lock_entry, read_lock, write_lock
from wasmrt.catalog.package import PackageSource
from wasmrt.catalog.registry import SCHEME, OciSource, UrlSource, fetch_capability_file, fetch_signature
from wasmrt.catalog.signing import Signer
from wasmrt.catalog.sources import (
    FileSource,
    Source,
    WithSignature,
    is_package,
    read_capability_file,
    read_signature,
)
from wasmrt.catalog.validator import WasmValidator
from wasmrt.cli.grant.plans import apply_plan
from wasmrt.cli.grant.programs import ProgramSource
from wasmrt.cli.shared.options import json_option, quiet_option
from wasmrt.cli.shared.output import show_json
from wasmrt.cli.shared.registries import configured_policy, download_with, registry_access
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import (
    ConfigurationError,
)
from wasmrt.core.limits import COMPONENT_MAX_BYTES, COMPONENT_WARN_BYTES
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog
from wasmrt.sandbox.component import ToolSpec


@click.command("install")
@click.argument("source", required=False)
@click.option("--name", metavar="NAME", help="Name to install it under (default: the file's name).")
@click.option(
    "--capabilities",
    metavar="FILE",
    help="Its request, a path or an https:// URL (default: NAME.capabilities.json next to a component file).",
)
@click.option("--grant", type=click.Path(path_type=Path), metavar="FILE", help="Grant no more than this file allows.")
@click.option("--tool", "only", multiple=True, metavar="NAME", help="Grant only this tool, or tools like get_*.")
@click.option("--command", "is_program", is_flag=True, help="SOURCE is a WASI program with arguments and output.")
@click.option(
    "--adapter",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --command: adapter that turns a WASI preview 1 module into a component.",
)
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="Public key that must have signed it.")
@click.option(
    "--signature",
    metavar="FILE",
    help="Its signature, a path or an https:// URL (default: SOURCE.sigstore.json, or those in the registry).",
)
@click.option("--lock", "locking", is_flag=True, help="Also write it to wasmrt.lock.")
@click.option("--locked", is_flag=True, help="Install exactly what wasmrt.lock lists; SOURCE selects one tool.")
@click.option("--yes", is_flag=True, help="Grant its request without asking for confirmation.")
@click.option(
    "--offer/--no-offer",
    default=None,
    help="Offer it to agents, or only allow it on the command line (default: offer; an update keeps the setting).",
)
@click.option("--max-bytes", type=click.IntRange(1), default=COMPONENT_MAX_BYTES, help="Refuse larger components.")
@click.option("--warn-bytes", type=click.IntRange(1), default=COMPONENT_WARN_BYTES, help="Warn above this size.")
@quiet_option
@json_option
def install(
    source: str | None,
    name: str | None,
    capabilities: str | None,
    grant: Path | None,
    only: tuple[str, ...],
    is_program: bool,
    adapter: Path | None,
    key: Path | None,
    signature: str | None,
    locking: bool,
    locked: bool,
    yes: bool,
    offer: bool | None,
    max_bytes: int,
    warn_bytes: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Install a tool from a component file or a package.

    A package is a folder with a manifest.toml or a wasmrt.toml, that file itself, or an archive (zip, tar.gz).
    It may also be in a registry, at oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:HEX, or at an https:// URL, which
    can pin the digest. A component at a URL requests what --capabilities names.

    The command shows the capabilities that the tool requests, and installs it after you confirm. An update with a
    different request waits for a new grant; until then, the old version stays active. The same component with fewer
    capabilities replaces the old version at once. Missing secrets are listed with the commands that set them. Your
    consent also offers a new tool to agents, unless you answer "me" or pass --no-offer.

    A WASI program is a tool too: its parameters are the arguments and the input, and its result is the output. With
    --command, the file may also be a WASI preview 1 module. It is turned into a component with the Bytecode
    Alliance's adapter, which is downloaded from its registry on first use.

    A signature is verified with --key, or with the key of the installed version. A keyless signature (Sigstore) names
    its signer, and is verified with the extra wasmrt[sigstore]. An update by another signer, without a signature or
    with a lower version waits for you, like one that requests more.

    A tool with the name of a bundled tool replaces it only with --name or --yes.

    \b
    Examples:
      wasmrt install ./search.wasm
      wasmrt install oci://registry.example.com/acme/json:1.2.0
      wasmrt install ./search.wasm --key publisher.pub --lock
      wasmrt install --locked
    """
    installer = open_installer(WasmValidator(warn_bytes=warn_bytes, max_bytes=max_bytes))
    if locked:
        is_mixed = any((name, capabilities, grant, only, is_program, adapter, key, signature, locking))
        _install_locked(installer, source, is_mixed=is_mixed, yes=yes, offer=offer, as_json=as_json)
        return
    source = _check_usage(source, adapter, is_program=is_program, locking=locking)
    typed = TypedSource(source, capabilities, signature)
    chosen = open_source(typed)
    chosen = _adapt_program_file(chosen, adapter, yes=yes, as_json=as_json) if is_program else chosen
    stored = None if is_program else make_absolute(typed)
    plan = installer.plan(chosen, name=name, grant=_read_grant(grant), only=only, key=_read_signer(key), typed=stored)
    report = apply_plan(installer, plan, yes=yes, offer=offer, is_named=name is not None, as_json=as_json)
    _finish(report, plan, typed if locking else None, as_json=as_json)


def _finish(report: dict[str, Any], plan: InstallPlan, to_lock: TypedSource | None, *, as_json: bool) -> None:
    if to_lock is not None:
        write_lock(Path(LOCK_FILE), [lock_entry(open_catalog(find_places().data).get(plan.new.name), *to_lock)])
    if as_json:
        show_json(report)


def open_installer(validator: WasmValidator | None = None) -> Installer:
    """Open the installer of this installation, with the operator's policy."""
    catalog = open_catalog(find_places().data)
    return Installer(catalog, prepare=_describe_component, validator=validator, policy=configured_policy())


def open_source(typed: TypedSource) -> Source:
    """Open a source that a user typed, with its signature if the user typed a file for that."""
    chosen = _open_source(typed)
    return chosen if typed.signature is None else WithSignature(chosen, _read_signature(typed.signature))


def make_absolute(typed: TypedSource) -> TypedSource:
    """Return a source with absolute paths."""
    paths = (None if text is None or "://" in text else str(Path(text).absolute()) for text in typed)
    source, capabilities, signature = (path or text for path, text in zip(paths, typed, strict=True))
    return TypedSource(source or "", capabilities, signature)


def _check_usage(source: str | None, adapter: Path | None, *, is_program: bool, locking: bool) -> str:
    """Check that the options do not contradict each other, and return the source."""
    if source is None:
        raise click.UsageError("pass SOURCE, or --locked")
    if adapter is not None and not is_program:
        raise ConfigurationError(
            "--adapter is only for WASI programs",
            code="usage",
            hint="add --command to treat the file as a WASI program",
        )
    if locking and is_program:
        raise ConfigurationError("--lock is not for WASI programs", code="usage", hint="remove --lock")
    return source


def _install_locked(
    installer: Installer, wanted: str | None, *, is_mixed: bool, yes: bool, offer: bool | None, as_json: bool
) -> None:
    """Install all tools of the lock file, or only the tool whose name or source is `wanted`."""
    if is_mixed:
        raise click.UsageError("--locked can only be combined with SOURCE, --yes, --offer and --json")
    chosen = [each for each in read_lock(Path(LOCK_FILE)) if wanted in (None, each.name, each.source)]
    if not chosen:
        raise ConfigurationError(f"{LOCK_FILE} does not list {wanted or 'any tool'}", code="locked", hint="use --lock")
    reports = []
    for entry in chosen:
        exact = TypedSource(entry.resolved, entry.pinned_capabilities, entry.signature)
        typed = make_absolute(TypedSource(entry.source, entry.capabilities, entry.signature))
        # SECURITY: only content with the locked digests and signer is planned.
        locked = LockedSource(open_source(exact), entry)
        plan = installer.plan(locked, name=entry.name, key=entry.signer, typed=typed)
        reports.append(apply_plan(installer, plan, yes=yes, offer=offer, is_named=True, as_json=as_json))
    if as_json:
        show_json(reports)


def _describe_component(name: str, component: ComponentBytes, tools: Sequence[ToolSpec] | None) -> ComponentInfo:
    with open_runtime() as runtime:
        return component_info(prepare(runtime, name, component, tools=tools))


def _open_source(typed: TypedSource) -> Source:
    text, capabilities, signature = typed
    if "://" in text:
        configured_policy().check_source(text)  # SECURITY: before any request
        sidecar = None if capabilities is None else _read_capabilities(capabilities)
        if text.startswith(SCHEME):
            return OciSource(text, registry_access(configured_policy()), sidecar, finds_signatures=signature is None)
        return UrlSource(text, download_with(configured_policy()), sidecar)
    path = Path(text)
    if is_package(path):
        if capabilities is not None:
            raise ConfigurationError(
                "a package contains its capability file, so a separate one cannot be used",
                hint="to grant less, use --grant FILE",
            )
        return PackageSource(path)
    if capabilities is not None and "://" in capabilities:
        raise ConfigurationError("a local component needs a local capability file, got a URL", hint="download it first")
    return FileSource(path, None if capabilities is None else Path(capabilities))


def _read_capabilities(text: str) -> bytes:
    if "://" not in text:
        return read_capability_file(Path(text))
    return fetch_capability_file(text, download_with(configured_policy()))


def _read_grant(grant: Path | None) -> bytes | None:
    return None if grant is None else read_capability_file(grant)


def _read_signer(key: Path | None) -> Signer | None:
    from wasmrt.catalog.signing.keys import read_signer  # loads cryptography

    return None if key is None else read_signer(key)


def _read_signature(text: str) -> bytes:
    if "://" not in text:
        return read_signature(Path(text))
    return fetch_signature(text, download_with(configured_policy()))


def _adapt_program_file(file: Source, adapter: Path | None, *, yes: bool, as_json: bool) -> Source:
    inner = file.source if isinstance(file, WithSignature) else file
    if isinstance(inner, PackageSource) or (isinstance(inner, UrlSource) and inner.is_package):
        raise ConfigurationError("a package is not a program", hint="omit --command")
    return ProgramSource(file=file, adapter=adapter, yes=yes, as_json=as_json)
