"""Programs for WASI preview 1, which are core modules, made components with the Bytecode Alliance's adapter.

The adapter is a file of a registry's package: fetched when it is first needed, kept, and known by its digest.
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
from wasmrt.authoring.project._toolchain import Confirm, Progress, exclusive, no_progress, toolchains_dir
from wasmrt.authoring.project._wasm_tools import find_wasm_tools
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import MAX_ADAPTER_BYTES

_PREVIEW1 = "wasi_snapshot_preview1"
_FILE = f"{_PREVIEW1}.command.wasm"


@dataclass(frozen=True, slots=True)
class _Carrier:
    """A package that has the adapter in it, by the client of its registry."""

    client: str
    registry: str
    name: str
    version: str
    size: str
    sha256: str
    """SECURITY: of the adapter; a package with another one is not used."""

    def fetch(self, work: Path) -> Path:
        """Fetch the package into an empty folder, running nothing of it, and return where the adapter is."""
        return _from_npm(self, work) if self.client == "npm" else _from_crates(self, work)


_CARRIERS = (
    _Carrier(
        "npm", "npm", "@bytecodealliance/jco", "1.35.0", "0.2 MB",
        "2a652d711c1fff34f9d5a0e073e50ef7eeb8fe7d8a6d559eae643a4c049a7b94",
    ),
    _Carrier(
        "cargo", "crates.io", "wasi-preview1-component-adapter-provider", "50.0.1", "0.1 MB",
        "0b4fe490390ecc9c2222f969f65b179e658a3327e005efd4ddc959766132a3c4",
    ),
)  # fmt: skip
_OTHERWISE = "fetch it on a machine that has a network, and give it with --adapter FILE"


def adapt_program(module: bytes, adapter: bytes) -> bytes:
    """Return the component that a program's core module is, with the adapter for its imports.

    Raises:
        MissingToolchainError: wasm-tools is missing.
        BuildError: it is no such program: it has other imports than preview 1, or no start; `output` says which.
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
    """Return the adapter: the one that is kept, or one fetched now from the first registry whose client is here.

    Raises:
        MissingToolchainError: the person declined, or there is no client of a registry that has it.
        BuildError: it could not be fetched, or is another file than the one that is known.
    """
    folder = toolchains_dir() / "adapters"
    for known in _CARRIERS:
        kept = folder / f"{known.sha256[:16]}.wasm"
        if kept.is_file() and _is(data := _read(kept), known):
            return data
    carrier = next((carrier for carrier in _CARRIERS if shutil.which(carrier.client)), None)
    if carrier is None:
        raise MissingToolchainError(
            f"a program for WASI preview 1 needs the file {_FILE}, and neither npm nor cargo is here to fetch it",
            hint=f"install one of them, or {_OTHERWISE}",
        )
    what = f"{carrier.name} {carrier.version} from {carrier.registry}"
    if not confirm(f"Fetch {what}, which has the adapter for WASI preview 1 ({carrier.size})?"):
        raise MissingToolchainError(
            f"a program for WASI preview 1 needs an adapter, which {carrier.name} on {carrier.registry} has",
            hint=f"run it again with --yes, or {_OTHERWISE}",
        )
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{carrier.sha256[:16]}.wasm"
    with exclusive(kept, progress):
        if kept.is_file() and _is(data := _read(kept), carrier):
            return data  # somebody else has fetched it meanwhile
        with progress(f"fetching {what} ({carrier.size})"):
            data = _fetched(carrier, folder)
            replace_file(kept, data, mode=0o644, durable=False)
    return data


def _fetched(carrier: _Carrier, folder: Path) -> bytes:
    with TemporaryDirectory(dir=folder) as work:
        try:
            data = _read(carrier.fetch(Path(work)))
        except (BuildError, OSError, tarfile.TarError, KeyError) as error:
            raise BuildError(
                f"{carrier.name} {carrier.version} could not be fetched from {carrier.registry}",
                output=getattr(error, "output", ""),
                hint=f"is the registry reachable? If not, {_OTHERWISE}",
            ) from error
    if not _is(data, carrier):
        raise BuildError(
            f"the adapter in {carrier.name} {carrier.version} is not the one that is known here, so it was not used",
            code="unknown-binary",
            hint=_OTHERWISE,
        )
    return data


def _from_npm(carrier: _Carrier, work: Path) -> Path:
    npm = shutil.which("npm") or "npm"
    # The package alone: neither what it depends on, nor its scripts.
    _run([npm, "pack", "--silent", "--ignore-scripts", f"{carrier.name}@{carrier.version}"], work)
    (packed,) = sorted(work.glob("*.tgz"))[:1] or [work / "nothing.tgz"]
    with tarfile.open(packed) as archive:
        member = archive.extractfile(f"package/lib/{_FILE}")
        if member is None:
            raise KeyError(_FILE)
        (work / _FILE).write_bytes(member.read(MAX_ADAPTER_BYTES + 1))
    return work / _FILE


def _from_crates(carrier: _Carrier, work: Path) -> Path:
    manifest = f'[package]\nname = "adapter"\nedition = "2021"\n[dependencies]\n{carrier.name} = "={carrier.version}"\n'
    (work / "src").mkdir()
    (work / "src/lib.rs").touch()
    (work / "Cargo.toml").write_text(manifest, encoding="utf-8")
    _run([shutil.which("cargo") or "cargo", "vendor", "--quiet", "vendor"], work)
    return work / "vendor" / carrier.name / "artefacts" / _FILE


def _run(command: list[str], work: Path) -> None:
    result = run_command(command, cwd=work, env=os.environ)
    if result.code:
        raise BuildError(f"{Path(command[0]).name} failed", output=result.output)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_ADAPTER_BYTES + 1)


def _is(data: bytes, carrier: _Carrier) -> bool:
    return hashlib.sha256(data).hexdigest() == carrier.sha256
