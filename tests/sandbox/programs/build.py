"""Build the test programs and plugin from source; a skip names the missing toolchain."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from wasmrt.authoring.project import toolchains_dir

HERE = Path(__file__).parent
BUILT = HERE.parent / "guests/.built"
WASI = "wasm32-wasip2"


@cache
def program() -> Path:
    """The component made of `program.rs`, for WASI 0.2."""
    source = HERE / "program.rs"
    final = _place("program", source)
    if not final.is_file():
        _need_rust(WASI)
        flags = ["--edition", "2021", "-O", "-C", "panic=abort", "-C", "strip=symbols", "--target", WASI]
        _run(["rustc", *flags, source, "-o", final.with_suffix(".new")])
        os.replace(final.with_suffix(".new"), final)
    return final


@cache
def preview1_module() -> Path:
    """The core module made of `program.c`, for WASI preview 1."""
    source = HERE / "program.c"
    final = _place("preview1", source)
    if not final.is_file():
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("toolchain zig missing: pip install ziglang")
        folder = str(toolchains_dir() / "zig")
        command = [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi", "-Os", "-s"]
        _run(
            [*command, "-o", final.with_suffix(".new"), source],
            ZIG_GLOBAL_CACHE_DIR=folder, ZIG_LOCAL_CACHE_DIR=folder,
        )  # fmt: skip
        os.replace(final.with_suffix(".new"), final)
    return final


@cache
def echo_plugin(target: str = "") -> Path:
    """The plugin `echo`, for this machine or for `wasm32-wasip2`."""
    if target:
        _need_rust(target)
    elif shutil.which("cargo") is None:
        pytest.skip("toolchain rust missing: install Rust with rustup")
    folder = Path(os.environ.get("CARGO_TARGET_DIR", BUILT / "cargo")) / "echo-plugin"
    options = ["--target", target] if target else []
    _run(["cargo", "build", "--locked", "--release", *options], cwd=HERE / "echo", CARGO_TARGET_DIR=str(folder))
    return folder / target / "release" / ("echo-plugin.wasm" if target else "echo-plugin")


def _place(name: str, source: Path) -> Path:
    BUILT.mkdir(exist_ok=True)
    return BUILT / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.wasm"


def _need_rust(target: str) -> None:
    if shutil.which("rustc") is None or shutil.which("cargo") is None:
        pytest.skip(f"toolchain rust {target} missing: install Rust with rustup")
    command = ["rustc", "--print", "target-libdir", "--target", target]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not printed or not Path(printed).is_dir():
        pytest.skip(f"toolchain rust {target} missing: rustup target add {target}")


def _run(command: list[str | Path], cwd: Path = HERE, **env: str) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=os.environ | env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
