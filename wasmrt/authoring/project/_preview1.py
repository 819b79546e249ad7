"""Turn WASI preview 1 programs (core modules) into components with the Bytecode Alliance's adapter.

The adapter is a file in a registry package. It is downloaded on first use, stored, and checked against its digest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from wasmrt.authoring.project._process import run_command
from wasmrt.authoring.project._storage import use_build_folders
from wasmrt.authoring.project._toolchain import (
    ADAPTERS,
    Confirm,
    Progress,
    lock_exclusively,
    no_progress,
    toolchains_dir,
)
from wasmrt.authoring.project._wasm_tools import find_wasm_tools
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import MAX_ADAPTER_BYTES

_PREVIEW1 = "wasi_snapshot_preview1"
_FILE = f"{_PREVIEW1}.command.wasm"


@dataclass(frozen=True, slots=True)
class _AdapterPackage:
    """A registry package that contains the adapter."""

    client: str
    registry: str
    name: str
    version: str
    size: str
    sha256: str
    """The digest of the adapter. SECURITY: any other adapter is rejected."""

    def fetch(self, work: Path) -> Path:
        """Download the package into an empty folder without running its code, and return the adapter's path."""
        return _download_from_npm(self, work) if self.client == "npm" else _download_from_crates(self, work)


_PACKAGES = (
    _AdapterPackage(
        "npm", "npm", "@bytecodealliance/jco", "1.35.0", "0.2 MB",
        "2a652d711c1fff34f9d5a0e073e50ef7eeb8fe7d8a6d559eae643a4c049a7b94",
    ),
    _AdapterPackage(
        "cargo", "crates.io", "wasi-preview1-component-adapter-provider", "50.0.1", "0.1 MB",
        "0b4fe490390ecc9c2222f969f65b179e658a3327e005efd4ddc959766132a3c4",
    ),
)  # fmt: skip
_OTHERWISE = "download the adapter on another machine, and pass it with --adapter FILE"


def adapt_program(module: bytes, adapter: bytes) -> bytes:
    """Turn a program's core module into a component, with the adapter for its imports.

    Raises:
        MissingToolchainError: wasm-tools is missing.
        BuildError: the module has other imports than preview 1, or no start function. The error's `output` says which.
    """
    tools = find_wasm_tools()
    with TemporaryDirectory(prefix="wasmrt-adapt-") as folder:
        work = Path(folder)
        (work / "program.wasm").write_bytes(module)
        (work / "adapter.wasm").write_bytes(adapter)
        command = ("component", "new", "program.wasm", "--adapt", f"{_PREVIEW1}=adapter.wasm", "-o", "out.wasm")
        tools.run(*command, cwd=work)
        return (work / "out.wasm").read_bytes()


def find_adapter(*, confirm: Confirm, progress: Progress = no_progress) -> bytes:
    """Return the stored adapter, or download it from the first registry whose client is installed.

    Raises:
        MissingToolchainError: the user declined, or no client of a registry is installed.
        BuildError: the download failed, or the adapter has a different digest.
    """
    with use_build_folders():
        return _find_adapter(confirm, progress)


def _find_adapter(confirm: Confirm, progress: Progress) -> bytes:
    folder = toolchains_dir() / ADAPTERS
    for known in _PACKAGES:
        stored = folder / f"{known.sha256[:16]}.wasm"
        if stored.is_file() and _is_adapter(data := _read_adapter(stored), known):
            folder.touch()  # the time of its last use
            return data
    package = next((package for package in _PACKAGES if shutil.which(package.client)), None)
    if package is None:
        raise MissingToolchainError(
            f"a WASI preview 1 program needs the file {_FILE}; downloading it requires npm or cargo",
            hint=f"install one of them, or {_OTHERWISE}",
        )
    source = f"{package.name} {package.version} from {package.registry}"
    if not confirm(f"Download {source}, which contains the WASI preview 1 adapter ({package.size})?"):
        raise MissingToolchainError(
            f"a WASI preview 1 program needs an adapter, which is in {package.name} on {package.registry}",
            hint=f"run the command again with --yes, or {_OTHERWISE}",
        )
    folder.mkdir(parents=True, exist_ok=True)
    stored = folder / f"{package.sha256[:16]}.wasm"
    with lock_exclusively(stored, progress):
        if stored.is_file() and _is_adapter(data := _read_adapter(stored), package):
            return data  # another process has downloaded it since
        with progress(f"downloading {source} ({package.size})"):
            data = _download(package, folder)
            replace_file(stored, data, mode=0o644, durable=False)
    return data


def _download(package: _AdapterPackage, folder: Path) -> bytes:
    with TemporaryDirectory(dir=folder) as work:
        try:
            data = _read_adapter(package.fetch(Path(work)))
        except (BuildError, OSError, tarfile.TarError, KeyError) as error:
            raise BuildError(
                f"{package.name} {package.version} could not be downloaded from {package.registry}",
                output=getattr(error, "output", ""),
                hint=f"check that the registry is reachable, or {_OTHERWISE}",
            ) from error
    if not _is_adapter(data, package):
        raise BuildError(
            f"the adapter in {package.name} {package.version} has an unknown digest, so it was not used",
            code="unknown-binary",
            hint=_OTHERWISE,
        )
    return data


def _download_from_npm(package: _AdapterPackage, work: Path) -> Path:
    npm = shutil.which("npm") or "npm"
    # This neither downloads the dependencies of the package nor runs its scripts.
    _run_client([npm, "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"], work)
    (packed,) = sorted(work.glob("*.tgz"))[:1] or [work / "nothing.tgz"]
    with tarfile.open(packed) as archive:
        member = archive.extractfile(f"package/lib/{_FILE}")
        if member is None:
            raise KeyError(_FILE)
        (work / _FILE).write_bytes(member.read(MAX_ADAPTER_BYTES + 1))
    return work / _FILE


def _download_from_crates(package: _AdapterPackage, work: Path) -> Path:
    manifest = f'[package]\nname = "adapter"\nedition = "2021"\n[dependencies]\n{package.name} = "={package.version}"\n'
    (work / "src").mkdir()
    (work / "src/lib.rs").touch()
    (work / "Cargo.toml").write_text(manifest, encoding="utf-8")
    _run_client([shutil.which("cargo") or "cargo", "vendor", "--quiet", "vendor"], work)
    return work / "vendor" / package.name / "artefacts" / _FILE


def _run_client(command: list[str], work: Path) -> None:
    result = run_command(command, cwd=work, env=os.environ)
    if result.code:
        raise BuildError(f"{Path(command[0]).name} failed", output=result.output)


def _read_adapter(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_ADAPTER_BYTES + 1)


def _is_adapter(data: bytes, package: _AdapterPackage) -> bool:
    return hashlib.sha256(data).hexdigest() == package.sha256
