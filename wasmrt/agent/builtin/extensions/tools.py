"""The agent's tools `tool_search`, `tool_install`, `tool_auth`, `tool_activate`, `tool_list` and `tool_remove`.

These tools manage the other tools, with the same functions as the command line. A model requests a change. The approver
sees the grant, and the approval covers exactly this grant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Protocol

from wasmrt.agent.builtin.extensions.installing import (
    check_free_name,
    component_info,
    describe_install,
    describe_removal,
    plan_fetch,
)
from wasmrt.agent.builtin.extensions.missing import missing_from
from wasmrt.agent.builtin.extensions.servers import Servers
from wasmrt.agent.builtin.extensions.sources import ToolSources, first_address
from wasmrt.agent.builtin.host_tool import HostTool, Params, Plan, trust_none
from wasmrt.agent.builtin.ranking import rank_rows
from wasmrt.capabilities.file import parse
from wasmrt.catalog import ComponentInfo
from wasmrt.catalog.bundled import bundled_grant, bundled_sidecar, bundled_tool
from wasmrt.catalog.granted import read_granted
from wasmrt.catalog.installer import Installer
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.removal import check_removable
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, NotInstalledError, SourceError, WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import COMPONENT_MAX_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import check_installed_name
from wasmrt.core.places import Places
from wasmrt.core.setting_commands import append_command
from wasmrt.egress.gateway import decide_download
from wasmrt.egress.secrets import DEFAULT_USER, SecretsStore
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import open_catalog
from wasmrt.sandbox.component import ToolSpec

_MAX_ROWS = 200
_MAX_PROBLEMS = 20
_MAX_DISCOVERED = 64
"""Maximum number of packages that one search opens to read their descriptions."""
_NAME = {"type": "string", "maxLength": 64, "description": "The name of the tool or MCP server."}
_KIND = {"type": "string", "enum": ["wasm", "mcp"]}
_CHANGES = (Effect.WRITE_FILESYSTEM, Effect.MODIFY_TOOLS)


class RegistryAccess(Protocol):
    """The registry functions that these tools use."""

    problems: dict[str, WasmrtError]
    servers: Servers | None
    installed: Any

    def all_names(self) -> list[str]:
        """Return the names of all tools."""

    def tool_names(self) -> list[str]:
        """Return the names of the tools that the policy allows."""

    def group(self, name: str) -> list[str]:
        """Return the names of the tools of a group."""


class ExtensionTools:
    """The tools for one catalog and one registry."""

    def __init__(
        self,
        registry: RegistryAccess,
        runtime: WasmToolRuntime,
        places: Places,
        sources: ToolSources,
        protected: Collection[str] = (),
    ) -> None:
        self._registry = registry
        self._runtime = runtime
        self._sources = sources
        self._protected = tuple(protected)
        self._catalog = open_catalog(places.data)

    def all(self) -> list[HostTool]:
        """Return the tools."""
        url = {
            "type": "string",
            "maxLength": 2048,
            "description": "A package's URL or oci:// reference, or an MCP server's URL.",
        }
        return [
            HostTool(
                "tool_search", "Search installed and installable tools by name and description.",
                {
                    "query": {"type": "string", "maxLength": 500},
                    "discover": {
                        "type": "boolean",
                        "description": "Also search the operator's lists, and the descriptions in the sources.",
                    },
                },
                self._search, required=["query"], untrusted=trust_none,
                effects=[Effect.NETWORK] if any("://" in each for each in self._sources.policy.search) else [],
            ),
            HostTool(
                "tool_install", "Ask the user to install a tool from the operator's sources or from a URL.",
                {"name": _NAME, "url": url, "kind": _KIND}, plan=self._install, required=["name"],
                decide=self._check_source, command=self._install_command, effects=[Effect.NETWORK, *_CHANGES],
                untrusted=trust_none,
            ),
            HostTool(
                "tool_auth", "List the logins and secrets that a tool lacks, with the commands that set them.",
                {"name": _NAME}, self._auth, required=["name"], approval=True,
                effects=[Effect.MODIFY_TOOLS],  # the tool checks which secrets are set, but does not read their values
                decide=self._check_name, command=self._make_auth_command, untrusted=trust_none,
            ),
            HostTool(
                "tool_activate", "Make an installed tool available, with the permissions that the user granted.",
                {"name": _NAME}, self._activate, required=["name"], in_programs=False, untrusted=trust_none,
            ),
            HostTool(
                "tool_list", "List the installed tools and MCP servers.", {"kind": _KIND}, self._list,
                untrusted=trust_none,
            ),
            HostTool(
                "tool_remove", "Ask the user to remove an installed tool or an MCP server.", {"name": _NAME},
                plan=self._remove, required=["name"], command=self._remove_command,
                effects=[Effect.DELETE_FILESYSTEM, Effect.MODIFY_TOOLS], untrusted=trust_none,
            ),
        ]  # fmt: skip

    def _list(self, params: Params, _: ToolContext) -> Any:
        kind = params.get("kind")
        rows = [] if kind == "mcp" else self._list_installed()
        rows += [] if kind == "wasm" or self._registry.servers is None else self._registry.servers.rows()
        return {"tools": rows[:_MAX_ROWS], "total": len(rows)}

    def _list_installed(self) -> list[dict[str, Any]]:
        return [
            {
                "name": tool.name, "kind": "wasm", "description": tool.description, "version": tool.number,
                "tools": tool.tools, "digest": tool.digest,
                "state": "waits for a grant" if tool.pending is not None else "installed",
                "active": self._list_registered_names(tool.name),
            }
            for tool in self._catalog.tools()
        ]  # fmt: skip

    def _search(self, params: Params, context: ToolContext) -> Any:
        rows = self._list_installed() + ([] if self._registry.servers is None else self._registry.servers.rows())
        known = {row["name"] for row in rows}
        for at, name in enumerate(self._sources.names()):
            if name not in known:
                described = params.get("discover", False) and at < _MAX_DISCOVERED
                description = self._read_description(name) if described else ""
                rows.append({"name": name, "kind": "wasm", "state": "not installed", "description": description})
        found = rank_rows(params["query"], rows)
        answer = {"tools": found[:_MAX_ROWS], "total": len(found)}
        if params.get("discover") and self._sources.policy.search:
            self._add_listed(answer, params["query"], context)
        return answer

    def _add_listed(self, answer: dict[str, Any], query: str, context: ToolContext) -> None:
        """Add the matching tools of the operator's lists, with names and URLs for `tool_install`."""
        from wasmrt.agent.builtin.extensions.lists import lists_for_agent, search_lists

        with self._runtime.open_gateway() as gateway:
            lifetime = context.lifetime or Lifetime(HostTool.timeout_seconds)
            found = search_lists(query, lists_for_agent(gateway, self._sources.policy, context.user, lifetime))
        for tool in found.tools:
            is_allowed = self._decide_url(tool.reference, self._sources.policy) is None
            answer["tools"].append({
                "name": tool.name.rpartition("/")[2], "kind": "wasm", "description": tool.description,
                "state": "not installed" if is_allowed else "the operator has not allowed its host",
                "url": tool.reference,
            })  # fmt: skip
        answer["total"] += len(found.tools) + found.more
        answer["problems"] = found.problems[:_MAX_PROBLEMS]

    def _read_description(self, name: str) -> str:
        try:
            sidecar = self._sources.source(name).fetch(max_bytes=COMPONENT_MAX_BYTES).sidecar
            return "" if sidecar is None else parse(sidecar).description or ""
        except WasmrtError as error:
            return f"cannot be read: {error.message}"

    def _check_source(self, params: Params) -> Decision | None:
        name, url = check_installed_name(params["name"]), params.get("url")
        if url is not None:
            return self._decide_url(url, InstallPolicy() if params.get("kind") == "mcp" else self._sources.policy)
        if params.get("kind") == "mcp":
            return None
        try:
            self._sources.path(name)
        except NotInstalledError as error:
            hint = f"the operator can add its folder: {append_command('extensions.sources', 'FOLDER')}"
            return Decision(False, Reason.NOT_FOUND, error.message, hint, "tool.source", name)
        return None

    def _decide_url(self, url: str, policy: InstallPolicy) -> Decision | None:
        denial = decide_download(first_address(url), self._sources.hosts, "extensions")
        if denial is not None:
            return denial
        try:
            policy.check_source(url)
        except SourceError as error:
            return Decision(False, Reason.HOST_NOT_ALLOWED, error.message, error.hint, "tool.source", "url")
        return None

    def _install(self, params: Params) -> Plan:
        name, url = params["name"], params.get("url")
        if params.get("kind") == "mcp":
            return self._servers(name).install(name, url)
        if not self._catalog.has(name):
            check_free_name(name, (*self._protected, *self._registry.all_names()))
        installer = Installer(self._catalog, prepare=self._prepare, policy=self._sources.policy)
        if url is not None:
            return plan_fetch(installer, name, url, self._sources, self._runtime)
        plan = installer.plan(self._sources.source(name), name=name)

        def apply(_: ToolContext) -> dict[str, Any]:
            offered = True if plan.previous is None else None
            version = self._catalog.get(installer.accept(plan, for_agents=offered).name)
            return {
                "installed": version.name, "version": version.number, "digest": version.digest,
                "next": "tool_activate",
            }  # fmt: skip

        return Plan(describe_install(plan), apply)

    def _prepare(self, name: str, component: ComponentBytes, tools: Sequence[ToolSpec] | None) -> ComponentInfo:
        # SECURITY: use a separate runtime without secrets, network or files, because the component is not approved yet.
        # The agent's other tools must not be able to invoke the component by its name.
        settings = replace(self._runtime.config, secrets=None, workspace=None, audit=None, audit_record=False)
        with WasmToolRuntime(settings) as runtime:
            return component_info(runtime.prepare(name, component, tools=tools))

    def _install_command(self, params: Params) -> str:
        name, url = params["name"], params.get("url")
        if params.get("kind") == "mcp":
            return f"wasmrt mcp trust {name}" if url is None else f"wasmrt mcp add {name} {quote(url)}"
        if url is not None:
            if url.startswith("oci://"):
                return f"wasmrt install {quote(url)} --name {name}"
            return f"wasmrt install FILE --name {name}, after downloading the file"
        try:
            path: Path | str = self._sources.path(name)
        except WasmrtError:
            path = "FILE"
        return f"wasmrt install {quote(str(path))} --name {name}"

    def _check_name(self, params: Params) -> None:
        """Validate the name. SECURITY: the name becomes part of commands that users run."""
        check_installed_name(params["name"])

    def _make_auth_command(self, params: Params) -> str:
        try:
            return ", then ".join(self._steps(params["name"], DEFAULT_USER))
        except WasmrtError:  # the call of the tool reports the same error
            return ""

    def _auth(self, params: Params, context: ToolContext) -> Any:
        name = params["name"]
        if steps := self._steps(name, context.user):
            note = "The user has to run these commands. Secrets are never part of this conversation."
            return {"name": name, "state": "needs a person", "commands": steps, "note": note}
        return {"state": "authorized"} | self._refresh(name)

    def _activate(self, params: Params, context: ToolContext) -> Any:
        return self._refresh(params["name"]) | {"lacks": self._steps(params["name"], context.user)}

    def _refresh(self, name: str) -> dict[str, Any]:
        """Register an installed tool, or the tools of a server, again. Return the names of the registered tools."""
        registry = self._registry
        if self._is_server(name):
            self._servers(name).activate(name)
        elif not self._catalog.has(name) and bundled_tool(name) is None:
            self._catalog.get(name)  # raises an error with the most similar name
        elif registry.installed is not None:
            registry.installed.refresh()
        known, visible = self._list_registered_names(name), set(registry.tool_names())
        problem = registry.problems.get(name)
        return {
            "name": name, "active": [each for each in known if each in visible],
            "kept_back": [each for each in known if each not in visible],
            "problem": None if problem is None else problem.message,
        }  # fmt: skip

    def _steps(self, name: str, user: str) -> list[str]:
        """Return the commands that set up a tool. SECURITY: the commands name only this user's secrets."""
        if self._is_server(name):
            return self._servers(name).steps(name, user)
        if self._catalog.has(name):
            version = self._catalog.get(name)
            sidecar, granted = version.sidecar, read_granted(version)
        elif (shipped := bundled_tool(name)) is not None:
            search = self._runtime.config.web_search
            sidecar, granted = bundled_sidecar(shipped, search), bundled_grant(shipped, search)
        else:
            return []
        if sidecar is None:
            return []
        missing = missing_from(parse(sidecar), self._secrets, granted=granted, tool=name, user=user)
        return [secret.hint.removeprefix("run: ") for secret in missing if secret.hint]

    def _secrets(self) -> SecretsStore:
        if self._runtime.config.secrets is None:
            hint = "pass WasmRuntimeConfig(secrets=...)"
            raise ConfigurationError("this program has no secrets store", hint=hint)
        return self._runtime.config.secrets

    def _list_registered_names(self, name: str) -> list[str]:
        """Return the names in the registry that belong to an installed tool or a server."""
        names = [each for each in self._registry.all_names() if each == name or each.startswith(f"{name}.")]
        return names or self._registry.group(f"mcp:{name}")

    def _remove(self, params: Params) -> Plan:
        name = params["name"]
        if self._is_server(name) and not self._catalog.has(name):
            return self._servers(name).remove(name)
        check_removable(self._catalog, name)

        def apply(_: ToolContext) -> dict[str, Any]:
            versions = self._catalog.remove(name)
            if self._registry.installed is not None:
                self._registry.installed.refresh()
            return {"removed": name, "versions": [version.number for version in versions]}

        return Plan(describe_removal(self._catalog.versions(name)), apply)

    def _remove_command(self, params: Params) -> str:
        name = params["name"]
        return f"wasmrt mcp remove {name}" if self._is_server(name) else f"wasmrt remove {name}"

    def _is_server(self, name: str) -> bool:
        servers = self._registry.servers
        return servers is not None and servers.has(name) and not self._catalog.has(name)

    def _servers(self, name: str) -> Servers:
        if self._registry.servers is None:
            hint = f"a user can add a server: wasmrt mcp add {name} URL"
            raise ConfigurationError("no MCP servers are configured", hint=hint)
        return self._registry.servers
