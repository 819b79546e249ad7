"""Install the package of a server into the data directory, and delete installations that are not used."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from blake3 import blake3

from wasmrt.core.errors import InstallError
from wasmrt.core.limits import MAX_MCP_PACKAGE_BYTES, MAX_MCP_PACKAGE_FILES, MIB
from wasmrt.core.places import Places
from wasmrt.interop.mcp.packages._confined import PackageSteps
from wasmrt.interop.mcp.packages._model import Package, PackageRequest, Registry
from wasmrt.interop.mcp.packages._npm import install_npm
from wasmrt.interop.mcp.packages._pypi import install_pypi

_DOMAIN = b"wasmrt mcp package v1\0"


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed package, which is deleted by `discard` or kept by storing its server."""

    package: Package
    command: tuple[str, ...]
    """The program and its arguments."""
    folder: Path
    notes: tuple[str, ...]
    """Facts that the user should know."""

    def discard(self) -> None:
        """Delete the installation."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # other installations of the server
            self.folder.parent.rmdir()


def install_package(places: Places, server: str, request: PackageRequest, runner: Sequence[str]) -> Installation:
    """Fetch and install the package of a server. No code of the package runs.

    Raises:
        ConfigurationError: a package manager is missing, or the package has no such program.
        InstallError: the package cannot be fetched or used, or exceeds a bound.
        ToolError: this system cannot confine the package manager.
    """
    parent = places.mcp_packages / server
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = parent / secrets.token_hex(4)
    folder.mkdir(mode=0o700)
    install = install_npm if request.registry is Registry.NPM else install_pypi
    try:
        with TemporaryDirectory(dir=parent, prefix="tmp-", ignore_cleanup_errors=True) as temporary:
            command, version, parts, notes = install(request, PackageSteps(folder.resolve(), Path(temporary).resolve()))
        _check_size(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    package = Package(
        registry=request.registry, name=request.name, version=version, runner=tuple(runner),
        digest=blake3(_DOMAIN + json.dumps(parts).encode()).hexdigest(),
    )  # fmt: skip
    return Installation(package, (*command, *request.arguments), folder, tuple(notes))


def keep_only(places: Places, server: str, command: Sequence[str]) -> None:
    """Delete the installations of a server that its command does not use."""
    parent = places.mcp_packages / server
    if not parent.is_dir():
        return
    for folder in parent.iterdir():
        if not any(Path(part).is_relative_to(folder.resolve()) for part in command):
            shutil.rmtree(folder, ignore_errors=True)
    if not any(parent.iterdir()):
        parent.rmdir()


def _check_size(folder: Path) -> None:
    count = size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            count += 1
            size += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 - twice as fast for many files
        if count > MAX_MCP_PACKAGE_FILES or size > MAX_MCP_PACKAGE_BYTES:
            raise InstallError(
                f"the package has more than {MAX_MCP_PACKAGE_FILES} files or {MAX_MCP_PACKAGE_BYTES // MIB} MiB",
                code="mcp-package", hint="install it yourself, and name its program",
            )  # fmt: skip
