"""Find, or make, a Rust that compiles to wasm32-unknown-unknown, and print the environment it needs.

`rustup target add` is the first thing tried. Where its server cannot be reached, Debian's rustc and the standard
library's source are unpacked into a private cache directory (nothing is installed) and the library is built once:
about 140 MB to fetch, a minute to build. Needs cargo, cc, and for the second way apt-get and dpkg-deb.

    python tools/rust_wasm.py            print NAME=VALUE lines, or say what is missing
    python tools/rust_wasm.py --prepare  make it, when it is not there yet
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

TARGET = "wasm32-unknown-unknown"
_STAMP = "wasmrt-toolchain.json"
_TRIPLE = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN"


class MissingToolchain(Exception):
    """What is missing, and how to get it, in one sentence."""


@dataclass(frozen=True, slots=True)
class RustWasm:
    """A compiler for wasm32-unknown-unknown and the linker that makes components of its modules."""

    origin: str
    env: dict[str, str]
    """What to add to the environment of cargo."""
    component_ld: Path
    wasm_ld: Path

    def component_env(self, flags: list[str]) -> dict[str, str]:
        """Make cargo link components instead of core modules, without any WASI adapter."""
        linking = [f"-Clink-arg=--wasm-ld-path={self.wasm_ld}", "-Clink-arg=--wasi-adapter=none"]
        # The encoded form allows spaces in paths.
        return {f"{_TRIPLE}_LINKER": str(self.component_ld), "CARGO_ENCODED_RUSTFLAGS": "\x1f".join([*linking, *flags])}


def find(*, prepare: bool = False) -> RustWasm:
    """Return the toolchain on this machine; with `prepare`, make it where it is absent.

    Raises: MissingToolchain.
    """
    if shutil.which("cargo") is None:
        raise MissingToolchain("cargo is missing: install Rust with rustup or the system's packages")
    sysroot = _sysroot()
    component_ld, wasm_ld = _linkers(sysroot)
    if sysroot is not None and _has_target(sysroot):
        return RustWasm("rustup", {f"{_TRIPLE}_LINKER": str(wasm_ld)}, component_ld, wasm_ld)
    private = _private_root()
    if private is None and prepare:
        if _add_target() and sysroot is not None and _has_target(sysroot):
            return RustWasm("rustup", {f"{_TRIPLE}_LINKER": str(wasm_ld)}, component_ld, wasm_ld)
        private = _from_debian(wasm_ld)
    if private is None:
        raise MissingToolchain(f"the {TARGET} target is missing: run python tools/rust_wasm.py --prepare")
    return RustWasm("debian", _private_env(private, wasm_ld), component_ld, wasm_ld)


def cache_dir() -> Path:
    """The private directory of unpacked toolchains; WASMRT_TOOLCHAINS overrides it."""
    chosen = os.environ.get("WASMRT_TOOLCHAINS")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wasmrt-toolchains"


def _sysroot() -> Path | None:
    rustc = shutil.which("rustc")
    if rustc is None:
        return None
    return Path(_output([rustc, "--print", "sysroot"]).strip())


def _has_target(sysroot: Path) -> bool:
    return any((sysroot / "lib/rustlib" / TARGET / "lib").glob("libstd-*.rlib"))


def _linkers(sysroot: Path | None) -> tuple[Path, Path]:
    bundled = list(sysroot.glob("lib/rustlib/*/bin")) if sysroot is not None else []
    component = _first([*(place / "wasm-component-ld" for place in bundled), _on_path("wasm-component-ld")])
    plain = _first([*(place / "gcc-ld/wasm-ld" for place in bundled), _on_path("wasm-ld")])
    if component is None:
        raise MissingToolchain("wasm-component-ld is missing: rustup's toolchains bring it, or cargo install it")
    if plain is None:
        raise MissingToolchain("wasm-ld is missing: rustup's toolchains bring it, or install lld")
    return component, plain


def _first(places: list[Path | None]) -> Path | None:
    return next((place for place in places if place is not None and place.is_file()), None)


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _add_target() -> bool:
    if shutil.which("rustup") is None:
        return False
    return subprocess.run(["rustup", "target", "add", TARGET], capture_output=True, check=False).returncode == 0


def _private_root() -> Path | None:
    stamps = sorted(cache_dir().glob(f"rust-*/{_STAMP}"))
    return stamps[-1].parent if stamps else None


def _private_env(root: Path, wasm_ld: Path) -> dict[str, str]:
    stamp = json.loads((root / _STAMP).read_text())
    return {
        "RUSTC": str(root / "usr/bin/rustc"),
        "LD_LIBRARY_PATH": str(root / stamp["libraries"]),
        f"{_TRIPLE}_LINKER": str(wasm_ld),
    }


def _from_debian(wasm_ld: Path) -> Path:
    for needed in ("apt-get", "apt-cache", "dpkg-deb", "cc"):
        if shutil.which(needed) is None:
            raise MissingToolchain(f"rustup has no {TARGET} and {needed} is missing, so Debian's cannot be unpacked")
    names = _packages()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_dir()) as work:
        debs, root = Path(work, "debs"), Path(work, "root")
        debs.mkdir()
        if subprocess.run(["apt-get", "download", *names], cwd=debs, stdout=sys.stderr, check=False).returncode:
            raise MissingToolchain("apt-get could not download rustc-web: run apt-get update and try again")
        for deb in sorted(debs.iterdir()):
            subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
        _write_stamp(root)
        _build_std(root, wasm_ld, Path(work, "seed"))
        version = re.search(r"rustc (\S+)", _output([str(root / "usr/bin/rustc"), "-V"], _private_env(root, wasm_ld)))
        final = cache_dir() / f"rust-{version[1] if version else 'unknown'}"
        shutil.rmtree(final, ignore_errors=True)
        root.rename(final)
    return final


def _packages() -> list[str]:
    """`rustc-web` and friends are Debian's newest Rust, kept for browsers; the versioned names change with it."""
    # After a security update apt may offer several versions; the first stanza is the candidate.
    depends = _output(["apt-cache", "show", "--no-all-versions", "libstd-rust-web-dev"])
    std = re.search(r"libstd-rust-web-[0-9.]*[0-9]", depends)
    if std is None:
        raise MissingToolchain(f"rustup has no {TARGET} and this apt has no rustc-web: run apt-get update, or use Debian")
    llvm = re.search(r"libllvm[0-9]+", _output(["apt-cache", "show", "--no-all-versions", std[0]]))
    return ["rustc-web", "libstd-rust-web-dev", "rust-web-src", std[0], *([llvm[0]] if llvm else [])]


def _write_stamp(root: Path) -> None:
    driver = next(root.glob("usr/lib/**/librustc_driver-*.so"))
    (root / _STAMP).write_text(json.dumps({"libraries": str(driver.parent.relative_to(root))}))


def _build_std(root: Path, wasm_ld: Path, seed: Path) -> None:
    """Build the standard library once and put it where `--target` looks, so that later builds are plain ones."""
    vendor = root / "usr/lib/rustlib/src/rust/library/vendor"
    (seed / ".cargo").mkdir(parents=True)
    (seed / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\n' + f"directory = {json.dumps(str(vendor))}\n"
    )
    (seed / "lib.rs").write_text("")
    (seed / "Cargo.toml").write_text(
        '[package]\nname = "seed"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
        '[profile.release]\nopt-level = "s"\ncodegen-units = 1\n'
    )
    env = os.environ | _private_env(root, wasm_ld)
    # build-std is unstable, hence the bootstrap switch; the bitcode lets later builds optimise across the library.
    env |= {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-C embed-bitcode=yes", "CARGO_TARGET_DIR": str(seed / "target")}
    command = ["cargo", "build", "--release", "--offline", "--target", TARGET, "-Zbuild-std=std,panic_abort"]
    subprocess.run(command, cwd=seed, env=env, stdout=sys.stderr, check=True)
    place = root / "usr/lib/rustlib" / TARGET / "lib"
    place.mkdir(parents=True)
    for library in (seed / "target" / TARGET / "release/deps").glob("*.rlib"):
        if not library.name.startswith("libseed"):
            shutil.copy(library, place)


def _output(command: list[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=os.environ | (env or {}), capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


if __name__ == "__main__":
    try:
        found = find(prepare="--prepare" in sys.argv[1:])
    except MissingToolchain as missing:
        sys.exit(f"rust_wasm: {missing}")
    for name, value in found.env.items():
        print(f"{name}={value}")
