"""Installs and removals that an agent asks for, in lines for the person who decides, and the checks before that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

from wasmrt.agent.builtin.extensions.sources import SUFFIXES, source_at
from wasmrt.agent.builtin.host_tool import Plan
from wasmrt.catalog import ToolVersion
from wasmrt.catalog.bundled import shipped_names
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import InvalidNameError, SourceError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import MIB
from wasmrt.core.names import check_installed_name, folded
from wasmrt.core.places import Places
from wasmrt.egress.gateway import download
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.runtime import WasmToolRuntime

_MAX_FETCHED_BYTES = 64 * MIB
_NOTHING = b"{}"
_SHOWN_CHARS = 190


def check_free_name(name: str, taken: Iterable[str]) -> None:
    """Refuse a name by which a model could take a new tool for another one.

    Raises:
        InvalidNameError: no tool can have it, or it is that of a tool that is there, in whatever spelling.
    """
    check_installed_name(name)
    for other in (*shipped_names(), *taken):
        if folded(other) == folded(name) or folded(other).startswith(f"{folded(name)}."):
            raise InvalidNameError(
                f"{name!r} is the name of another tool, {other}", code="name-taken",
                hint=f"choose another name; a person may mean it: wasmrt install FILE --name {name}",
            )  # fmt: skip


def plan_shown(plan: InstallPlan) -> str:
    """Return an install in lines: what it is, with the digest of each part, and all that it would be granted."""
    new, previous = plan.new, plan.previous
    lines = [
        f"install {new.name}, from {new.origin}",
        f"component {new.component.digest}",
        f"capability file {'none' if new.sidecar is None else digest_of(new.sidecar.encode())}",
        *([] if new.package is None else [f"package {digest_of(new.package.encode())}"]),
        "it would be granted, and nothing else:",
        *(f"  {sentence}" for sentence in plan.sentences),
    ]
    if previous is not None:
        how = f"in place of version {previous.number}, from which it differs:"
        lines.append(how if plan.changes else "as it is installed already")
        lines += [f"  {'+' if at < plan.more else ' '} {change}" for at, change in enumerate(plan.changes)]
    lines += [f"warning: {warning}" for warning in plan.warnings]
    words = new.info.description[:_SHOWN_CHARS]
    lines += [f"its author says: {words}"] if words else []
    # SECURITY: no word of a stranger's begins a line that looks like ours.
    return "\n".join(line.replace("\n", " ").replace("\r", " ") for line in lines)


def removal_shown(versions: tuple[ToolVersion, ...]) -> str:
    """Return a removal in lines: every version with its digest."""
    name = versions[0].name
    lines = [f"  version {version.number}: {version.digest}" for version in versions]
    return "\n".join([f"remove {name}, with all that it was granted; its secrets stay:", *lines])


def plan_fetch(
    installer: Installer, name: str, url: str, hosts: tuple[str, ...], runtime: WasmToolRuntime, places: Places
) -> Plan:
    """Plan to fetch a package and to install it with nothing granted: nobody knows yet what it asks for.

    Raises:
        SourceError: the address ends like nothing that can be one.
    """
    suffix = next((each for each in SUFFIXES if urlsplit(url).path.endswith(each)), None)
    if suffix is None:
        raise SourceError("the address is that of no package", hint=f"its path ends in one of {', '.join(SUFFIXES)}")
    shown = f"fetch {url}\nand install it as {name} with nothing granted; a person grants it something later"
    return Plan(shown, partial(_fetched, installer, name, url, suffix, hosts, runtime, places))


def _fetched(
    installer: Installer,
    name: str,
    url: str,
    suffix: str,
    hosts: tuple[str, ...],
    runtime: WasmToolRuntime,
    places: Places,
    context: ToolContext,
) -> dict[str, object]:
    with runtime.open_gateway() as gateway:
        data = download(gateway, url, hosts, name="tool_install", user=context.user, max_bytes=_MAX_FETCHED_BYTES)
    try:
        places.fetched_packages.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=places.fetched_packages) as folder:
            path = places.fetched_packages / folder / f"{name}{suffix}"
            replace_file(path, data, durable=False)
            plan = installer.plan(source_at(path), name=name, grant=_NOTHING)
    except OSError as error:
        raise SourceError(f"it cannot be kept ({error.strerror})", hint="check space and owner") from error
    # SECURITY: an update, too, holds nothing; and it takes the place of what runs only when a person says so.
    version = installer.accept(plan) if plan.previous is None else installer.store_pending(plan)
    grant = f"wasmrt grant {name}" + ("" if version.pending else " --add LIST=ENTRY")
    return {
        "installed": name, "version": version.number, "digest": version.digest, "granted": "nothing",
        "waits": version.pending, "next": f"a person looks at what it asks for: wasmrt inspect {name}; {grant}",
    }  # fmt: skip
