"""Load the plugins of a folder: `NAME.toml` with `NAME.wasm`, or with the program `NAME` if it is native."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from wasmrt.agent.builtin.plugins._manifest import PluginManifest, read_manifest
from wasmrt.agent.builtin.plugins._programs import WORKSPACE, NativeProgram, WasiProgram
from wasmrt.agent.builtin.plugins._protocol import Mount
from wasmrt.agent.builtin.plugins._tool import PluginTool
from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability
from wasmrt.core.errors import ConfigurationError, CoreModuleError, NotInstalledError, SourceError, WasmrtError
from wasmrt.core.files import read_file
from wasmrt.core.limits import (
    COMPONENT_MAX_BYTES,
    MAX_PLUGINS,
    MAX_TOML_BYTES,
    MAX_WRITE_BYTES,
    MAX_WRITE_FILES,
    ResourceLimits,
)
from wasmrt.core.names import did_you_mean
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import CORE_MODULE_HINT, check_header

_SUFFIX = ".toml"
_WRITE = "/write"
_NO_BOUND = 2**61
Adapt = Callable[[bytes], bytes]
"""Converts a program for WASI preview 1 to a component."""


class Plugins:
    """The plugins of a folder by name. The object owns a runtime: close it, or use it as a context manager."""

    def __init__(self, tools: dict[str, PluginTool], refused: dict[str, WasmrtError], runtime: WasmToolRuntime | None):
        self._tools = tools
        self._runtime = runtime
        self.refused = refused
        """The plugins that could not be loaded, with their errors."""

    def __getitem__(self, name: str) -> PluginTool:
        """Return a plugin.

        Raises:
            WasmrtError: the plugin was refused; the error has the reason.
            NotInstalledError: no plugin has this name.
        """
        if name in self.refused:
            raise self.refused[name]
        if name not in self._tools:
            near = did_you_mean(name, [*self._tools, *self.refused])
            raise NotInstalledError(
                f"no plugin is named {name!r}",
                hint=f"did you mean {near}?" if near else f"plugins: {', '.join(self._tools) or 'none'}",
            )
        return self._tools[name]

    def __iter__(self) -> Iterator[PluginTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def close(self) -> None:
        """Close the runtime that was created for the plugins."""
        if self._runtime is not None:
            self._runtime.close()

    def __enter__(self) -> Plugins:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_plugins(
    folder: Path | str,
    *,
    workspace: Path | str | None = None,
    config: WasmRuntimeConfig | None = None,
    unsafe_native_plugins: bool = False,
    write_paths: Iterable[Path | str] = (),
    allow_network: bool = False,
    adapt: Adapt | None = None,
) -> Plugins:
    """Load every plugin of a folder. If a plugin cannot be loaded, the others are loaded nevertheless.

    Args:
        folder: The folder of the manifests and programs.
        workspace: The folder that plugins may read, at `/workspace`; None for no folder.
        config: Settings of the runtime for WASI plugins, except its workspace.
        unsafe_native_plugins: Whether to allow native plugins, which only the kernel confines.
        write_paths: Folders that plugins may write, each at `/write/<name of the folder>`. WASI plugins are refused
            unless all these folders are in the workspace.
        allow_network: Whether native plugins that require the network may use it.
        adapt: Converts a WASI plugin for preview 1 to a component, such as
            `wasmrt.authoring.project.adapt_program` with an adapter.

    Raises:
        ConfigurationError: a folder does not exist, or a folder of `write_paths` must not be written by plugins.
        SourceError: the folder cannot be read, or has too many plugins.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import load_plugins
        >>> Path("plugins").mkdir()
        >>> with load_plugins("plugins") as plugins:
        ...     print(list(plugins))
        []
    """
    home = _check_folder(folder, "the plugins folder")
    root = None if workspace is None else _check_folder(workspace, "the workspace")
    settings = replace(config or WasmRuntimeConfig(), audit=None, audit_record=False, workspace=root)
    writable = _writable(write_paths, home)
    return _Loader(home, settings, root, unsafe_native_plugins, writable, allow_network, adapt).load()


@dataclass
class _Loader:
    _home: Path
    _config: WasmRuntimeConfig
    _workspace: Path | None
    _native: bool
    _writable: tuple[Mount, ...]
    _network: bool
    _adapt: Adapt | None
    _runtime: WasmToolRuntime | None = None

    def load(self) -> Plugins:
        tools: dict[str, PluginTool] = {}
        refused: dict[str, WasmrtError] = {}
        try:
            for name in self._names():
                try:
                    tools[name] = self._load(name)
                except WasmrtError as error:
                    refused[name] = error
        except BaseException:
            if self._runtime is not None:
                self._runtime.close()
            raise
        return Plugins(tools, refused, self._runtime)

    def _names(self) -> list[str]:
        try:
            found = sorted(entry.name for entry in os.scandir(self._home) if entry.name.endswith(_SUFFIX))
        except OSError as error:
            raise SourceError(
                f"cannot read the plugins folder: {error.strerror}", hint="check its owner and permissions"
            ) from error
        if len(found) > MAX_PLUGINS:
            raise SourceError(
                f"plugins folder: expected at most {MAX_PLUGINS} plugins, got {len(found)}", hint="use several folders"
            )
        return [name.removesuffix(_SUFFIX) for name in found]

    def _load(self, name: str) -> PluginTool:
        source = self._read(f"{name}{_SUFFIX}", MAX_TOML_BYTES)
        manifest = read_manifest(source, name=name)
        program = self._make_native_program(manifest) if manifest.native else self._make_wasi_program(manifest)
        return PluginTool(manifest, source, program, network=self._network)

    def _make_native_program(self, manifest: PluginManifest) -> NativeProgram:
        if not self._native:
            raise ConfigurationError(
                f"{manifest.tool_name} is a native plugin, and native plugins are disabled",
                code="native-plugin",
                hint="build it for WASI; or load it with unsafe_native_plugins if you trust its author",
            )
        if sys.platform != "linux":
            raise ConfigurationError(
                f"{manifest.tool_name} is a native plugin, which needs Linux",
                code="native-plugin",
                hint="build it for WASI",
            )
        read = () if self._workspace is None else (Mount(str(self._workspace), WORKSPACE, read_only=True),)
        network = manifest.requires_network and self._network
        try:
            return NativeProgram(self._home / manifest.tool_name, manifest, (*read, *self._writable), network=network)
        except OSError as error:
            raise SourceError(
                f"cannot use the program of the plugin {manifest.tool_name}: {error.strerror}",
                hint=f"put the program {manifest.tool_name} next to its manifest, and make it executable",
            ) from error

    def _make_wasi_program(self, manifest: PluginManifest) -> WasiProgram:
        name = manifest.tool_name
        writable = self._map_writable_parts(name)
        if manifest.requires_network and self._network:
            raise ConfigurationError(
                f"{name} is a WASI plugin that requires the network, but WASI plugins have no sockets",
                code="no-wasi-network",
                hint="use wasi:http, and install the plugin with a capability file: wasmrt install FILE --command",
            )
        data = self._read(f"{name}.wasm", COMPONENT_MAX_BYTES)
        try:
            check_header(data)
        except CoreModuleError as error:
            if error.hint != CORE_MODULE_HINT:
                raise  # an Extism plugin
            if self._adapt is None:
                file = f"{name}.wasm"
                hint = f"to convert it in this folder, run: wasmrt advanced plugins adapt {file} {file}"
                raise CoreModuleError(f"{file} is a core module, not a component", hint=hint) from None
            data = self._adapt(data)
        grant = Capabilities.none() if self._workspace is None else Capabilities.none().with_workspace_read([""])
        if writable:
            prefixes = tuple("" if path == "." else path for path in writable.values())
            grant = grant.with_workspace_write(
                # The same permissions as a native plugin: it may remove files, and write the maximum number of files.
                WorkspaceWriteCapability(prefixes, max_bytes=MAX_WRITE_BYTES, max_files=MAX_WRITE_FILES, remove=True)
            )
        limits = ResourceLimits(
            timeout_seconds=manifest.timeout_seconds,
            fuel=_NO_BOUND,  # a manifest limits time, not instructions
            # A response is up to twice as long inside JSON text. The limit of each stream is checked afterwards.
            output_bytes=2 * (manifest.max_stdout_bytes + manifest.max_stderr_bytes) + 1024,
        )
        if self._runtime is None:
            self._runtime = WasmToolRuntime(self._config)
        tool = self._runtime.prepare(name, data, grant, limits)
        return WasiProgram(tool, manifest, has_workspace=self._workspace is not None, writable=writable)

    def _map_writable_parts(self, name: str) -> dict[str, str]:
        """Map the guest path of each folder that a WASI plugin may write to the folder's path in the workspace."""
        parts = {}
        for mount in self._writable:
            path = Path(mount.host_path)
            if self._workspace is None or not path.is_relative_to(self._workspace):
                raise ConfigurationError(
                    f"{name} is a WASI plugin, which writes in the workspace only: {path.name or path} is elsewhere",
                    code="no-wasi-writing",
                    hint="name folders below the workspace as write_paths",
                )
            parts[mount.guest_path] = path.relative_to(self._workspace).as_posix()
        return parts

    def _read(self, name: str, most: int) -> bytes:
        try:
            return read_file(self._home / name, max_bytes=most, follow_link=False)
        except OSError as error:
            raise SourceError(
                f"cannot use the plugin's file {name}: {error.strerror}", hint="check that it exists"
            ) from error


def _check_folder(given: Path | str, what: str) -> Path:
    path = Path(given)
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        raise ConfigurationError(f"cannot use {what}: {error.strerror}", hint="name a folder that exists") from error
    if not resolved.is_dir():
        raise ConfigurationError(f"{what} is not a folder", hint="name a folder")
    return resolved


def _writable(paths: Iterable[Path | str], home: Path) -> tuple[Mount, ...]:
    mounts: dict[str, Mount] = {}
    for given in paths:
        path = _check_folder(given, "a path that plugins may write")
        # SECURITY: plugins must not write files that control their permissions.
        for protected in (home, find_places().data):
            if protected.is_relative_to(path) or path.is_relative_to(protected):
                raise ConfigurationError(
                    f"plugins may not write {path.name or path}: it has files that control their permissions",
                    hint="name a folder outside the plugins and wasmrt's own folders",
                )
        guest = f"{_WRITE}/{path.name}"
        if guest in mounts:
            raise ConfigurationError(f"two writable paths of plugins are named {path.name}", hint="rename one")
        mounts[guest] = Mount(str(path), guest, read_only=False)
    return tuple(mounts.values())
