"""Plan installations and removals of tools: checks before the approval, and descriptions for the approver."""

from __future__ import annotations

import json
from collections.abc import Iterable

from wasmrt.agent.builtin.extensions.sources import ToolSources, open_source
from wasmrt.agent.builtin.host_tool import Plan
from wasmrt.catalog import ComponentInfo, ToolVersion
from wasmrt.catalog.bundled import shipped_names
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.sources import Source
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import InvalidNameError
from wasmrt.core.limits import MIB
from wasmrt.core.names import check_installed_name, fold_name
from wasmrt.egress.gateway import HttpRequest, HttpResponse, download, send_for_model
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import functions_by_interface, qualified_names

_MAX_FETCHED_BYTES = 64 * MIB
_NOTHING = b"{}"
_SHOWN_CHARS = 190
_TOOL = "tool_install"


def check_free_name(name: str, taken: Iterable[str]) -> None:
    """Check that a model cannot confuse the name of a new tool with an existing name.

    Raises:
        InvalidNameError: the name is invalid, or is another spelling of an existing tool's name.
    """
    check_installed_name(name)
    for other in (*shipped_names(), *taken):
        if fold_name(other) == fold_name(name) or fold_name(other).startswith(f"{fold_name(name)}."):
            raise InvalidNameError(
                f"the name {name!r} is taken: it is another spelling of the tool {other}", code="name-taken",
                hint=f"choose a different name; a user can override this: wasmrt install FILE --name {name}",
            )  # fmt: skip


def describe_install(plan: InstallPlan) -> str:
    """Describe an installation, with the digests of its parts and the whole grant."""
    new, previous = plan.new, plan.previous
    lines = [
        f"install {plan.summary}",
        f"component {new.component.digest}",
        f"capability file {'none' if new.sidecar is None else digest_of(new.sidecar.encode())}",
        *([] if new.package is None else [f"package {digest_of(new.package.encode())}"]),
        "it would be granted only:",
        *(f"+ {sentence}" for sentence in plan.new_sentences),
        *(f"  {sentence}" for sentence in plan.sentences if sentence not in plan.new_sentences),
        _describe_offer(previous),
    ]
    if previous is not None:
        lines.append(
            f"changes from version {previous.number}:" if plan.changes else "this version is already installed"
        )
        lines += [f"  {'+' if at < plan.more else ' '} {change}" for at, change in enumerate(plan.changes)]
    lines += [f"warning: {warning}" for warning in plan.warnings]
    words = new.info.description[:_SHOWN_CHARS]
    lines += [f"its author's description: {words}"] if words else []
    # SECURITY: untrusted text must not start a line that looks like wasmrt's output.
    return "\n".join(line.replace("\n", " ").replace("\r", " ") for line in lines)


def _describe_offer(previous: ToolVersion | None) -> str:
    # SECURITY: an approval offers only a new tool to agents. A model cannot change the user's decision by an update.
    if previous is None:
        return "it would be offered to the agents of this installation"
    return "it stays offered to agents" if previous.for_agents else "it stays hidden from agents"


def describe_removal(versions: tuple[ToolVersion, ...]) -> str:
    """Describe a removal, with the digest of every version."""
    lines = [f"  version {version.number}: {version.digest}" for version in versions]
    return "\n".join([f"remove {versions[0].name} and its grant, but not its secrets:", *lines])


def plan_fetch(installer: Installer, name: str, url: str, sources: ToolSources, runtime: WasmToolRuntime) -> Plan:
    """Plan to download and install a package without a grant: its requests are unknown before the download.

    Raises:
        SourceError: the URL is neither a registry's reference nor the URL of a package or component.
    """
    _open_source(url, sources, runtime, "")  # checks the URL before the approval

    def apply(context: ToolContext) -> dict[str, object]:
        plan = installer.plan(_open_source(url, sources, runtime, context.user), name=name, grant=_NOTHING)
        # SECURITY: an update gets no grant either. It replaces the installed version only after an approval.
        version = installer.accept(plan) if plan.previous is None else installer.store_pending(plan)
        grant = f"wasmrt grant {name}"
        grant += "" if version.pending else f" --add LIST=ENTRY; wasmrt grant {name} --offer"
        return {
            "installed": name, "version": version.number, "digest": version.digest, "granted": "nothing",
            "waits": version.pending, "next": f"a user has to review its requests: wasmrt inspect {name}; {grant}",
        }  # fmt: skip

    return Plan(
        f"download {url}\nand install it as {name} without a grant, hidden from agents; a user can change both later",
        apply,
    )


def _open_source(url: str, sources: ToolSources, runtime: WasmToolRuntime, user: str) -> Source:
    check = sources.policy.check_source

    def fetch(address: str, max_bytes: int) -> bytes:
        limit = min(max_bytes, _MAX_FETCHED_BYTES)
        with runtime.open_gateway() as gateway:
            return download(gateway, address, sources.hosts, name=_TOOL, user=user, max_bytes=limit, check=check)

    def send(
        method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        check(url)
        request, limit = HttpRequest(method, url, headers, body), min(max_bytes, _MAX_FETCHED_BYTES)
        with runtime.open_gateway() as gateway:
            return send_for_model(gateway, request, sources.hosts, name=_TOOL, user=user, max_bytes=limit)

    return open_source(url, fetch, send)


def component_info(tool: PreparedTool) -> ComponentInfo:
    """Return the information about a prepared tool that an installation stores."""
    described = [{"name": spec.name, "schema": spec.schema} for spec in tool.tools]
    return ComponentInfo(
        world=tool.world,
        description=" ".join(spec.description for spec in tool.tools if spec.description),
        imports=tuple(qualified_names(imports_of(tool))),
        exports=tuple(qualified_names(exports_of(tool))),
        schema_digest=digest_of(json.dumps(described, sort_keys=True).encode()),
        tools=len(tool.tools),
        problems=tool.problems,
        schema_problems=tool.schema_problems,
    )


def imports_of(tool: PreparedTool) -> dict[str, list[str]]:
    """Return the imported functions by interface. The empty name stands for functions outside of interfaces."""
    return functions_by_interface(tool.type.imports, tool.type.import_functions)


def exports_of(tool: PreparedTool) -> dict[str, list[str]]:
    """Return the exported functions by interface. The empty name stands for functions outside of interfaces."""
    return functions_by_interface(tool.type.exports, tool.type.functions)
