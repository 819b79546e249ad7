"""The tools of the catalog, and those that come with wasmrt, as a registry offers them: now, and after every change."""

from __future__ import annotations

import threading
from collections.abc import Container
from pathlib import Path
from typing import Any

from wasmrt.agent.registry._registry import ToolRegistry
from wasmrt.agent.registry._tool import ToolSource
from wasmrt.catalog import Catalog
from wasmrt.catalog.bundled import DESKTOP_NAMES, RUN_CODE, SHIPPED, TOOLS, BundledTool, OwnTool, missing_part
from wasmrt.core.errors import WasmrtError
from wasmrt.core.names import spelling
from wasmrt.runtime.runtime import WasmToolRuntime

_BUNDLED = object()


class InstalledTools:
    """Keeps a registry as the catalog of a data folder is; another process may change the catalog at any time."""

    def __init__(self, registry: ToolRegistry, runtime: WasmToolRuntime, data: Path) -> None:
        self._registry = registry
        self._runtime = runtime
        self._data = data
        self._absent = dict(registry.absent)
        """Tools that were absent before any component was looked for, each with the step that brings it."""
        self._held: dict[str, tuple[Any, ...]] = {}
        """The version of each tool that is offered, or could not be had."""
        self._offered: dict[str, list[str]] = {}
        """The names in the registry that each has there."""
        self._lock = threading.Lock()

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after a change of the catalog, for a price of microseconds."""
        found = []
        for name in ("catalog.sqlite3", "catalog.sqlite3-wal"):
            try:
                status = (self._data / name).stat()
            except OSError:
                continue
            found.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    def refresh(self) -> bool:
        """Offer what the catalog has now, and no longer what it has not; tell whether that changed anything.

        A tool that cannot be had is named in the registry's `problems`, and its version before is offered no longer.

        Raises:
            InstallError: the catalog cannot be read; then everything stays as it was.
        """
        with self._lock:
            wanted = self._wanted()
            gone = [name for name, version in self._held.items() if wanted.get(name) != version]
            for name in gone:
                self._drop(name)
            new = [name for name in wanted if name not in self._held]
            for name in new:
                self._held[name] = wanted[name]
                self._add(name, wanted[name])
            return bool(gone or new)

    def _wanted(self) -> dict[str, tuple[Any, ...]]:
        catalog = Catalog(self._data)
        installed: dict[str, tuple[Any, ...]] = {tool.name: catalog.get(tool.name) for tool in catalog.tools()}
        config = self._runtime.config
        parts = {"workspace": config.workspace, "search": config.web_search, "memory": config.memory_settings()}
        has = {part for part, given in parts.items() if given is not None}
        has |= {RUN_CODE.name, *DESKTOP_NAMES}.intersection(self._registry.all_names())  # those that are turned on
        taken = {spelling(name) for name in installed}
        absent = {
            name: step
            for tool in SHIPPED
            if (step := missing_part(tool, has)) is not None
            for name in (tool.name, *_aliases(tool, taken))
        }
        self._registry.absent = {**self._absent, **absent}
        shipped = [tool for tool in TOOLS if tool.name not in absent and tool.name not in installed]
        return {tool.name: (_BUNDLED, *_aliases(tool, taken)) for tool in shipped} | installed

    def _add(self, name: str, version: tuple[Any, ...]) -> None:
        registry, before = self._registry, set(self._registry.all_names())
        try:
            tool = self._runtime.prepare_installed(name)
            if version[0] is _BUNDLED:
                registry.register(tool, builtin=True, group="bundled", aliases=version[1:])
            else:
                registry.register(tool, source=ToolSource.INSTALLED)
        except WasmrtError as error:
            registry.problems[name] = error
        self._offered[name] = sorted(set(registry.all_names()) - before)

    def _drop(self, name: str) -> None:
        """SECURITY: whoever waits for an answer to the version before is denied; remembered ones are bound to it."""
        del self._held[name]
        self._registry.problems.pop(name, None)
        self._runtime.forget(name)
        for offered in self._offered.pop(name):
            self._registry.remove(offered)
            self._registry.tool_changed(offered)


def _aliases(tool: BundledTool | OwnTool, taken: Container[str]) -> tuple[str, ...]:
    """Return the aliases of a tool that comes with wasmrt, without those whose spelling an installed tool has."""
    return tuple(alias for alias in tool.aliases if spelling(alias) not in taken)
