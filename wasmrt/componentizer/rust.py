"""Find, or make, a Rust that compiles to wasm32-unknown-unknown, and run cargo with it.

`rustup target add` is the first thing tried. Where its server cannot be reached, Debian's rustc and the standard
library's source are unpacked into a private cache directory (nothing is installed) and the library is built once:
about 140 MB to fetch, a minute to build. Needs cargo, cc, and for the second way apt-get and dpkg-deb.

    python -m wasmrt.componentizer.rust --check        say which one is used, or what is missing
    python -m wasmrt.componentizer.rust --prepare      make it, when it is not there yet
    python -m wasmrt.componentizer.rust cargo build    run a command with it
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

from wasmrt.errors import BuildError, MissingToolchainError

TARGET = "wasm32-unknown-unknown"
_STAMP = "wasmrt-toolchain.json"
_TRIPLE = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN"


@dataclass(frozen=True, slots=True)
class RustWasm:
    """A compiler for wasm32-unknown-unknown."""

    origin: str
    env: dict[str, str]
    """What to add to the environment of cargo."""


def find(*, prepare: bool = False) -> RustWasm:
    """Return the toolchain on this machine; with `prepare`, make it where it is absent.

    Raises:
        MissingToolchainError: cargo, a linker or the target is missing; the message says how to get it.
        BuildError: what was fetched could not be unpacked or built.
    """
    if shutil.which("cargo") is None:
        raise MissingToolchainError("cargo is missing: install Rust with rustup or the system's packages")
    sysroot = _sysroot()
    if _has_target(sysroot) or (prepare and _private_root() is None and _add_target() and _has_target(sysroot)):
        return RustWasm("rustup", {})
    private = _private_root()
    if private is None and prepare:
        private = _from_debian(_linker(sysroot))
    if private is None:
        hint = "python -m wasmrt.componentizer.rust --prepare"
        raise MissingToolchainError(f"the target {TARGET} is missing: run {hint}", hint=f"run: {hint}")
    return RustWasm("debian", _private_env(private, _linker(sysroot)))


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


def _has_target(sysroot: Path | None) -> bool:
    return sysroot is not None and any((sysroot / "lib/rustlib" / TARGET / "lib").glob("libstd-*.rlib"))


def _linker(sysroot: Path | None) -> Path:
    bundled = [place / "rust-lld" for place in sysroot.glob("lib/rustlib/*/bin")] if sysroot is not None else []
    found = next((place for place in bundled if place.is_file()), None) or shutil.which("wasm-ld")
    if found is None:
        raise MissingToolchainError("wasm-ld is missing: rustup's toolchains bring it, or install lld")
    return Path(found)


def _add_target() -> bool:
    if shutil.which("rustup") is None:
        return False
    return _run(["rustup", "target", "add", TARGET]) == 0


def _private_root() -> Path | None:
    stamps = sorted(cache_dir().glob(f"rust-*/{_STAMP}"))
    return stamps[-1].parent if stamps else None


def _private_env(root: Path, linker: Path) -> dict[str, str]:
    stamp = json.loads((root / _STAMP).read_text())
    return {
        "RUSTC": str(root / "usr/bin/rustc"),
        "LD_LIBRARY_PATH": str(root / stamp["libraries"]),
        f"{_TRIPLE}_LINKER": str(linker),
    }


def _from_debian(linker: Path) -> Path:
    for needed in ("apt-get", "apt-cache", "dpkg-deb", "cc"):
        if shutil.which(needed) is None:
            raise MissingToolchainError(
                f"rustup has no {TARGET} and {needed} is missing, so Debian's cannot be unpacked"
            )
    names = _packages()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_dir()) as work:
        debs, root = Path(work, "debs"), Path(work, "root")
        debs.mkdir()
        if _run(["apt-get", "download", *names], cwd=debs):
            raise MissingToolchainError("apt-get could not download rustc-web: run apt-get update and try again")
        for deb in sorted(debs.iterdir()):
            if _run(["dpkg-deb", "-x", str(deb), str(root)]):
                raise BuildError("Debian's Rust could not be unpacked: is the disk full?")
        _write_stamp(root)
        _build_std(root, linker, Path(work, "seed"))
        version = re.search(r"rustc (\S+)", _output([str(root / "usr/bin/rustc"), "-V"], _private_env(root, linker)))
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
        raise MissingToolchainError(
            f"rustup has no {TARGET} and this apt has no rustc-web: run apt-get update, or use Debian"
        )
    llvm = re.search(r"libllvm[0-9]+", _output(["apt-cache", "show", "--no-all-versions", std[0]]))
    return ["rustc-web", "libstd-rust-web-dev", "rust-web-src", std[0], *([llvm[0]] if llvm else [])]


def _write_stamp(root: Path) -> None:
    driver = next(root.glob("usr/lib/**/librustc_driver-*.so"))
    (root / _STAMP).write_text(json.dumps({"libraries": str(driver.parent.relative_to(root))}))


def _build_std(root: Path, linker: Path, seed: Path) -> None:
    """Build the standard library once and put it where `--target` looks, so that later builds are plain ones."""
    vendor = root / "usr/lib/rustlib/src/rust/library/vendor"
    (seed / ".cargo").mkdir(parents=True)
    (seed / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\n'
        + f"directory = {json.dumps(str(vendor))}\n"
    )
    (seed / "lib.rs").write_text("")
    (seed / "Cargo.toml").write_text(
        '[package]\nname = "seed"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
        '[profile.release]\nopt-level = "s"\ncodegen-units = 1\n'
    )
    env = os.environ | _private_env(root, linker)
    # build-std is unstable, hence the bootstrap switch; the bitcode lets later builds optimise across the library.
    env |= {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-C embed-bitcode=yes", "CARGO_TARGET_DIR": str(seed / "target")}
    command = ["cargo", "build", "--release", "--offline", "--target", TARGET, "-Zbuild-std=std,panic_abort"]
    if _run(command, cwd=seed, env=env):
        raise BuildError("Rust's standard library could not be built for WebAssembly")
    place = root / "usr/lib/rustlib" / TARGET / "lib"
    place.mkdir(parents=True)
    for library in (seed / "target" / TARGET / "release/deps").glob("*.rlib"):
        if not library.name.startswith("libseed"):
            shutil.copy(library, place)


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> int:
    """Run a command whose output is for people."""
    program = shutil.which(command[0]) or command[0]
    done = subprocess.run([program, *command[1:]], cwd=cwd, env=env, stdout=sys.stderr, check=False)  # noqa: S603 - ours
    return done.returncode


def _output(command: list[str], env: dict[str, str] | None = None) -> str:
    program = shutil.which(command[0]) or command[0]
    given = os.environ | (env or {})
    done = subprocess.run([program, *command[1:]], env=given, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout if done.returncode == 0 else ""


def main(arguments: list[str]) -> int:
    try:
        rust = find(prepare=arguments == ["--prepare"])
    except BuildError as missing:
        print(f"rust: {missing}", file=sys.stderr)
        return 1
    if arguments in (["--check"], ["--prepare"]):
        print(f"Rust for {TARGET} from {rust.origin}")
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    program = shutil.which(arguments[0])
    if program is None:
        print(f"rust: the command {arguments[0]} is missing", file=sys.stderr)
        return 1
    # The command is the caller's own, and its output goes where the caller's does.
    return subprocess.run([program, *arguments[1:]], env=os.environ | rust.env, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
