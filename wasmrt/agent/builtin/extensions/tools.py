"""The agent's tools for tools: `tool_search`, `tool_install`, `tool_auth`, `tool_activate`, `tool_list`, `tool_remove`.

Each does what the command line does, by the same functions. A model asks; a person who was shown what a tool would be
granted agrees to that, and to nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Protocol

from wasmrt.agent.builtin.extensions.facts import component_info
from wasmrt.agent.builtin.extensions.installing import check_free_name, plan_fetch, plan_shown, removal_shown
from wasmrt.agent.builtin.extensions.missing import missing_from
from wasmrt.agent.builtin.extensions.servers import Servers
from wasmrt.agent.builtin.extensions.sources import ToolSources
from wasmrt.agent.builtin.host_tool import HostTool, Params, Plan, any_result
from wasmrt.capabilities.file import parse
from wasmrt.catalog import Catalog, ComponentInfo
from wasmrt.catalog.bundled import bundled_grant, bundled_sidecar, bundled_tool
from wasmrt.catalog.granted import granted_to
from wasmrt.catalog.installer import Installer
from wasmrt.catalog.removal import check_removable
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, NotInstalledError, WasmrtError
from wasmrt.core.limits import COMPONENT_MAX_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import check_installed_name
from wasmrt.core.places import Places
from wasmrt.egress.gateway import decide_download
from wasmrt.egress.secrets import DEFAULT_USER, SecretsStore
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import ToolSpec

_MAX_ROWS = 200
_MAX_DISCOVERED = 64
"""Packages in the sources that one search opens."""
_NAME = {"type": "string", "maxLength": 64, "description": "The tool's name; of an MCP server, the server's."}
_KIND = {"type": "string", "enum": ["wasm", "mcp"]}
_CHANGES = (Effect.WRITE_FILESYSTEM, Effect.MODIFY_TOOLS)


class Held(Protocol):
    """The part of a registry that these tools need."""

    problems: dict[str, WasmrtError]
    servers: Servers | None
    installed: Any

    def all_names(self) -> list[str]:
        """Return the names of all tools."""

    def tool_names(self) -> list[str]:
        """Return the names of the tools that the policy lets in."""

    def group(self, name: str) -> list[str]:
        """Return the names of the tools of a group."""


class ExtensionTools:
    """The tools over one catalog, for one registry."""

    def __init__(
        self,
        held: Held,
        runtime: WasmToolRuntime,
        places: Places,
        sources: ToolSources,
        protected: Collection[str] = (),
    ) -> None:
        self._held = held
        self._runtime = runtime
        self._places = places
        self._sources = sources
        self._protected = tuple(protected)
        self._catalog = Catalog(places.data)

    def all(self) -> list[HostTool]:
        """Return the tools."""
        url = {"type": "string", "maxLength": 2048, "description": "The address of a package, or of an MCP server."}
        return [
            HostTool(
                "tool_search", "Search tools by name and description: installed ones, and those that could be.",
                {
                    "query": {"type": "string", "maxLength": 500},
                    "discover": {"type": "boolean", "description": "Read the descriptions in the sources, too."},
                },
                self._search, required=["query"], untrusted=any_result,
            ),
            HostTool(
                "tool_install", "Ask a person to install a tool, from the operator's sources or from a URL.",
                {"name": _NAME, "url": url, "kind": _KIND}, plan=self._install, required=["name"],
                decide=self._check_source, command=self._install_by_hand, effects=[Effect.NETWORK, *_CHANGES],
            ),
            HostTool(
                "tool_auth", "Find the logins and secrets that a tool lacks; a person sets them, never a model.",
                {"name": _NAME}, self._auth, required=["name"], approval=True,
                effects=[Effect.MODIFY_TOOLS],  # it looks which secrets are set, and at no value
                decide=self._check_name, command=self._auth_by_hand,
            ),
            HostTool(
                "tool_activate", "Offer a tool that was installed, as a person granted it.",
                {"name": _NAME}, self._activate, required=["name"], in_programs=False,
            ),
            HostTool(
                "tool_list", "List the tools and MCP servers that are installed.", {"kind": _KIND}, self._list,
                untrusted=any_result,
            ),
            HostTool(
                "tool_remove", "Ask a person to remove an installed tool, or an MCP server.", {"name": _NAME},
                plan=self._remove, required=["name"], command=self._remove_by_hand,
                effects=[Effect.DELETE_FILESYSTEM, Effect.MODIFY_TOOLS],
            ),
        ]  # fmt: skip

    # -- looking -----------------------------------------------------------------------------------------------------

    def _list(self, params: Params, _: ToolContext) -> Any:
        kind = params.get("kind")
        rows = [] if kind == "mcp" else self._installed()
        rows += [] if kind == "wasm" or self._held.servers is None else self._held.servers.rows()
        return {"tools": rows[:_MAX_ROWS], "total": len(rows)}

    def _installed(self) -> list[dict[str, Any]]:
        return [
            {
                "name": tool.name, "kind": "wasm", "description": tool.description, "version": tool.number,
                "tools": tool.tools, "digest": tool.digest,
                "state": "waits for a grant" if tool.pending is not None else "installed",
                "active": self._offered(tool.name),
            }
            for tool in self._catalog.tools()
        ]  # fmt: skip

    def _search(self, params: Params, _: ToolContext) -> Any:
        words = params["query"].casefold().split()
        rows = self._installed() + ([] if self._held.servers is None else self._held.servers.rows())
        known = {row["name"] for row in rows}
        for at, name in enumerate(self._sources.names()):
            if name not in known:
                words_of = self._described(name) if params.get("discover", False) and at < _MAX_DISCOVERED else ""
                rows.append({"name": name, "kind": "wasm", "state": "not installed", "description": words_of})
        found = [row for row in rows if all(word in f"{row['name']} {row['description']}".casefold() for word in words)]
        return {"tools": found[:_MAX_ROWS], "total": len(found)}

    def _described(self, name: str) -> str:
        try:
            sidecar = self._sources.source(name).fetch(max_bytes=COMPONENT_MAX_BYTES).sidecar
            return "" if sidecar is None else parse(sidecar).description or ""
        except WasmrtError as error:
            return f"cannot be read: {error.message}"

    # -- installing --------------------------------------------------------------------------------------------------

    def _check_source(self, params: Params) -> Decision | None:
        name, url = check_installed_name(params["name"]), params.get("url")
        if url is not None:
            return decide_download(url, self._sources.hosts, "extensions")
        if params.get("kind") == "mcp":
            return None
        try:
            self._sources.path(name)
        except NotInstalledError as error:
            hint = "the operator allows it: add the folder that has it to sources in [extensions]"
            return Decision(False, Reason.NOT_FOUND, error.message, hint, "tool.source", name)
        return None

    def _install(self, params: Params) -> Plan:
        name, url = params["name"], params.get("url")
        if params.get("kind") == "mcp":
            return self._servers(name).install(name, url)
        if not self._catalog.has(name):
            check_free_name(name, (*self._protected, *self._held.all_names()))
        installer = Installer(self._catalog, prepare=self._prepare)
        if url is not None:
            return plan_fetch(installer, name, url, self._sources.hosts, self._runtime, self._places)
        plan = installer.plan(self._sources.source(name), name=name)
        return Plan(plan_shown(plan), lambda _: self._report(installer.accept(plan).name))

    def _prepare(self, name: str, component: ComponentBytes, tools: Sequence[ToolSpec] | None) -> ComponentInfo:
        # SECURITY: in a runtime of its own, without secrets, network or files: nobody has agreed to it yet, and no tool
        # of the agent's may find it by its name.
        settings = replace(self._runtime.config, secrets=None, workspace=None, audit=None, audit_record=False)
        with WasmToolRuntime(settings) as runtime:
            return component_info(runtime.prepare(name, component, tools=tools))

    def _report(self, name: str) -> dict[str, Any]:
        version = self._catalog.get(name)
        return {"installed": name, "version": version.number, "digest": version.digest, "next": "tool_activate"}

    def _install_by_hand(self, params: Params) -> str:
        name, url = params["name"], params.get("url")
        if params.get("kind") == "mcp":
            return f"wasmrt mcp trust {name}" if url is None else f"wasmrt mcp add {name} {quote(url)}"
        if url is not None:
            return f"wasmrt install FILE --name {name}, once the file is fetched"
        try:
            path: Path | str = self._sources.path(name)
        except WasmrtError:
            path = "FILE"
        return f"wasmrt install {quote(str(path))} --name {name}"

    # -- logins, and what is offered ---------------------------------------------------------------------------------

    def _check_name(self, params: Params) -> None:
        """SECURITY: a name stands in a command that a person runs, and is none before it was looked at."""
        check_installed_name(params["name"])

    def _auth_by_hand(self, params: Params) -> str:
        try:
            return ", then ".join(self._steps(params["name"], DEFAULT_USER))
        except WasmrtError:  # what keeps the call from its end says so itself
            return ""

    def _auth(self, params: Params, context: ToolContext) -> Any:
        name = params["name"]
        if steps := self._steps(name, context.user):
            note = "A person runs these; no secret passes through this conversation."
            return {"name": name, "state": "needs a person", "commands": steps, "note": note}
        return {"state": "authorized"} | self._activated(name)

    def _activate(self, params: Params, context: ToolContext) -> Any:
        return self._activated(params["name"]) | {"lacks": self._steps(params["name"], context.user)}

    def _activated(self, name: str) -> dict[str, Any]:
        held = self._held
        if self._is_server(name):
            self._servers(name).activate(name)
        elif not self._catalog.has(name) and bundled_tool(name) is None:
            self._catalog.get(name)  # raises, with the name that was probably meant
        elif held.installed is not None:
            held.installed.refresh()
        known, visible = self._offered(name), set(held.tool_names())
        problem = held.problems.get(name)
        return {
            "name": name, "active": [each for each in known if each in visible],
            "kept_back": [each for each in known if each not in visible],
            "problem": None if problem is None else problem.message,
        }  # fmt: skip

    def _steps(self, name: str, user: str) -> list[str]:
        """Return the commands that a person runs. SECURITY: of the calling user alone, and without a value."""
        if self._is_server(name):
            return self._servers(name).steps(name, user)
        if self._catalog.has(name):
            version = self._catalog.get(name)
            sidecar, granted = version.sidecar, granted_to(version)
        elif (shipped := bundled_tool(name)) is not None:
            search = self._runtime.config.web_search
            sidecar, granted = bundled_sidecar(shipped, search), bundled_grant(shipped, search)
        else:
            return []
        if sidecar is None:
            return []
        of = "" if user == DEFAULT_USER else f" --user {user}"
        missing = missing_from(parse(sidecar), self._secrets, granted=granted, tool=name, user=user)
        steps = ((secret.hint or f"wasmrt secret set {secret.name}").removeprefix("run: ") for secret in missing)
        return [step if step.endswith(of) else f"{step}{of}" for step in steps]

    def _secrets(self) -> SecretsStore:
        if self._runtime.config.secrets is None:
            raise ConfigurationError("this program keeps no secrets", hint="WasmRuntimeConfig(secrets=...)")
        return self._runtime.config.secrets

    def _offered(self, name: str) -> list[str]:
        """Return the names in the registry that an installed tool, or a server, has there."""
        names = [each for each in self._held.all_names() if each == name or each.startswith(f"{name}.")]
        return names or self._held.group(f"mcp:{name}")

    # -- removing ----------------------------------------------------------------------------------------------------

    def _remove(self, params: Params) -> Plan:
        name = params["name"]
        if self._is_server(name) and not self._catalog.has(name):
            return self._servers(name).remove(name)
        check_removable(self._catalog, name)
        versions = self._catalog.versions(name)
        return Plan(removal_shown(versions), lambda _: self._removed(name))

    def _removed(self, name: str) -> dict[str, Any]:
        versions = self._catalog.remove(name)
        if self._held.installed is not None:
            self._held.installed.refresh()
        return {"removed": name, "versions": [version.number for version in versions]}

    def _remove_by_hand(self, params: Params) -> str:
        name = params["name"]
        return f"wasmrt mcp remove {name}" if self._is_server(name) else f"wasmrt remove {name}"

    def _is_server(self, name: str) -> bool:
        return self._held.servers is not None and self._held.servers.has(name) and not self._catalog.has(name)

    def _servers(self, name: str) -> Servers:
        if self._held.servers is None:
            raise ConfigurationError(
                "no MCP servers are used here", hint=f"a person adds one: wasmrt mcp add {name} URL"
            )
        return self._held.servers
