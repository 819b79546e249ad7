"""Build the guests of the tests with the available toolchains, into tests/sandbox/guests/.built.

    python tests/sandbox/guests/build.py [NAMES...]     build, and print a table of what is built and what is missing
    python tests/sandbox/guests/build.py --prepare      fetch toolchains from the package registries first

`build(name)` returns the component's path, or what is missing. A component is built again when its sources change.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILT = HERE / ".built"
PREVIEW1 = ROOT / "guest-templates/go/preview1.wat"
RUST_TARGET = "wasm32-unknown-unknown"
sys.path.insert(0, str(ROOT))

from wasmrt.authoring.project import find_wasm_tools, toolchains_dir  # noqa: E402
from wasmrt.core.errors import MissingToolchainError  # noqa: E402

NPM_QUICKJS = ("componentize-qjs@0.4.5",)
NPM_STARLINGMONKEY = ("@bytecodealliance/componentize-js@0.23.0",)
TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason that a guest cannot be built here."""

    toolchain: str
    reason: str


class NotHere(Exception):
    def __init__(self, toolchain: str, reason: str) -> None:
        super().__init__(reason)
        self.missing = Missing(toolchain, reason)


@dataclass(frozen=True, slots=True)
class Recipe:
    toolchain: str
    sources: tuple[str, ...]
    """Files and folders below tests/sandbox/guests, apart from the WIT."""
    wit: str
    """The world's file below wit/."""
    make: Callable[[Recipe, Path, bool], None]
    """(recipe, output, prepare)"""
    option: str = ""

    @property
    def world(self) -> Path:
        return ROOT / "wit" / self.wit


def build(name: str, *, prepare: bool = False) -> Path | Missing:
    """Return the component of a guest, built if necessary, or what is missing.

    With `prepare` a toolchain that is absent is fetched from its registry, as far as it has one.
    Raises: subprocess.CalledProcessError when a toolchain is there and fails.
    """
    recipe = GUESTS[name]
    final = BUILT / f"{name}-{_digest(recipe)}.wasm"
    if final.is_file():
        return final
    BUILT.mkdir(exist_ok=True)
    with (
        (BUILT / f"{recipe.toolchain.partition(' ')[0]}.lock").open("w") as lock,
        TemporaryDirectory(dir=BUILT) as work,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be building the same guest
        if final.is_file():
            return final
        out = Path(work, "out.wasm")
        try:
            recipe.make(recipe, out, prepare)
        except NotHere as absent:
            return absent.missing
        for old in BUILT.glob(f"{name}-{'?' * 16}.wasm"):
            old.unlink()
        os.replace(out, final)
    return final


def _digest(recipe: Recipe) -> str:
    digest = hashlib.sha256(repr((recipe.toolchain, recipe.option)).encode())
    places = [HERE / source for source in recipe.sources]
    places += [recipe.world, Path(__file__), PREVIEW1]
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts and "target" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _run(command: list[str | Path], cwd: Path = HERE, **env: str) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=os.environ | env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, words)


def _wrap(recipe: Recipe, core: Path, out: Path, *options: str) -> None:
    embedded = out.with_name("embedded.wasm")
    _wasm_tools("component", "embed", recipe.world, core, "-o", embedded)
    _wasm_tools("component", "new", embedded, "-o", out, *options)


def _wasm_tools(*arguments: str | Path) -> None:
    try:
        find_wasm_tools().run(*arguments, cwd=HERE)
    except MissingToolchainError as missing:
        raise NotHere("wasm-tools", missing.hint or "") from None


# one function for each toolchain


def _wat(recipe: Recipe, out: Path, _prepare: bool) -> None:
    _wrap(recipe, HERE / recipe.sources[0], out)


def _c(recipe: Recipe, out: Path, _prepare: bool) -> None:
    if importlib.util.find_spec("ziglang") is None:
        raise NotHere("zig", "pip install ziglang")
    core = out.with_name("core.wasm")
    flags = ["-target", "wasm32-freestanding", "-Os", "-nostdlib", "-Wall", "-Werror", f'-DAT="{recipe.option}"']
    linking = ["-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=16384"]
    cache = str(toolchains_dir() / "zig")
    command = [sys.executable, "-m", "ziglang", "cc", *flags, *linking, "-o", core, HERE / recipe.sources[0]]
    _run(command, ZIG_GLOBAL_CACHE_DIR=cache, ZIG_LOCAL_CACHE_DIR=cache)
    _wrap(recipe, core, out)


def _rust(recipe: Recipe, out: Path, prepare: bool) -> None:
    _need_rust(RUST_TARGET, prepare)
    crate, _, feature = recipe.option.partition(":")
    features = ["--features", feature] if feature else []
    core = out.with_name("core.wasm")
    _cargo([*features, "-p", crate, "--target", RUST_TARGET], core)
    _wasm_tools("component", "new", core, "-o", out)  # wit-bindgen has embedded the world


def _rust_wasip2(recipe: Recipe, out: Path, prepare: bool) -> None:
    _need_rust("wasm32-wasip2", prepare)
    _cargo(["-p", recipe.option, "--target", "wasm32-wasip2"], out)


def _need_rust(target: str, prepare: bool) -> None:
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        raise NotHere(f"rust {target}", "install Rust with rustup")
    if prepare and shutil.which("rustup") is not None:
        subprocess.run(["rustup", "target", "add", target], capture_output=True, check=False)
    command = ["rustc", "--print", "target-libdir", "--target", target]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not printed or not Path(printed).is_dir():
        raise NotHere(f"rust {target}", f"rustup target add {target}")


def _cargo(arguments: list[str], out: Path) -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", BUILT / "cargo"))
    command = ["cargo", "build", "--locked", "--release", *arguments]
    _run([*command], cwd=HERE / "rust", CARGO_TARGET_DIR=str(target))
    crate = arguments[arguments.index("-p") + 1].replace("-", "_")
    triple = arguments[arguments.index("--target") + 1]
    shutil.copyfile(target / triple / f"release/{crate}.wasm", out)


def _python(recipe: Recipe, out: Path, _prepare: bool) -> None:
    beside = Path(sys.executable).with_name("componentize-py")
    command = str(beside) if beside.is_file() else shutil.which("componentize-py")
    if command is None:
        raise NotHere("componentize-py", "pip install componentize-py==0.25.1")
    stub = ["--stub-wasi"] if recipe.option == "stub" else []
    world: list[str | Path] = ["-d", recipe.world.parent, "-w", "sandboxed-tool"]
    for wit in recipe.sources[1:]:
        world = [*world[:2], "-d", HERE / wit, "-w", f"test:{Path(wit).stem}/{Path(wit).stem}"]
    # It reads every file below the path, so it gets a copy of the source only.
    source = out.with_name("source")
    shutil.copytree(HERE / recipe.sources[0], source, ignore=shutil.ignore_patterns("__pycache__"))
    _run([command, *world, "componentize", *stub, "app", "-p", source, "-o", out])


def _quickjs(recipe: Recipe, out: Path, prepare: bool) -> None:
    place = _npm("quickjs", NPM_QUICKJS, prepare)
    command = [place / "node_modules/.bin/componentize-qjs", "--wit", recipe.world.parent, "-n", "sandboxed-tool"]
    _run([*command, "--stub-wasi", "--sync", "--opt-size", "-o", out, "--js", HERE / recipe.sources[0]])


def _starlingmonkey(recipe: Recipe, out: Path, prepare: bool) -> None:
    # 385 MB: fetched only on request.
    wanted = prepare and os.environ.get("WASMRT_GUESTS_STARLINGMONKEY") == "1"
    place = _npm("starlingmonkey", NPM_STARLINGMONKEY, wanted)
    command = [place / "node_modules/.bin/componentize-js", HERE / recipe.sources[0], "--wit", recipe.world]
    absent = recipe.option.split() or ["stdio", "random", "clocks", "http", "fetch-event"]
    _run([*command, "-n", "sandboxed-tool", "-d", *absent, "--out", out])


def _npm(name: str, packages: tuple[str, ...], prepare: bool) -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotHere(name, "install Node.js")
    place = toolchains_dir() / f"npm-{name}-{hashlib.sha256(repr(packages).encode()).hexdigest()[:8]}"
    if not (place / "done").is_file():
        if not prepare:
            raise NotHere(name, f"python tests/sandbox/guests/build.py --prepare fetches {' '.join(packages)}")
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text(json.dumps({"private": True}))
        _run(["npm", "install", "--no-audit", "--no-fund", *packages], cwd=place)
        (place / "done").touch()
    return place


def _go(recipe: Recipe, out: Path, _prepare: bool) -> None:
    if shutil.which("go") is None:
        raise NotHere("go", "install Go 1.24 or newer")
    core = out.with_name("core.wasm")
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", core, "."]
    _run([*command], cwd=HERE / recipe.sources[0], GOOS="wasip1", GOARCH="wasm", GOTOOLCHAIN="local")
    # The template's adapter logs; this guest's world has no such function.
    log = '(import "wasmrt:tool/log@0.1.0" "log" (func $log (param i32 i32 i32)))'
    silent = out.with_name("preview1.wat")
    text = PREVIEW1.read_text()
    assert log in text
    silent.write_text(text.replace(log, "(func $log (param i32 i32 i32))"))
    _wrap(recipe, core, out, "--adapt", f"wasi_snapshot_preview1={silent}")


def _tinygo(recipe: Recipe, out: Path, prepare: bool) -> None:
    core = out.with_name("core.wasm")
    _compile_with_tinygo(recipe, HERE / "tinygo/target.json", core, prepare)
    _wrap(recipe, core, out)


def _tinygo_wasip2(recipe: Recipe, out: Path, prepare: bool) -> None:
    spec, core, wit = (out.with_name(name) for name in ("target.json", "core.wasm", "wit"))
    changed = json.loads((HERE / "tinygo/wasip2.json").read_text())
    spec.write_text(json.dumps(json.loads((HERE / "tinygo/target.json").read_text()) | changed))
    _compile_with_tinygo(recipe, spec, core, prepare)
    (wit / "deps").mkdir(parents=True)  # http-client.wit has wasi:io and wasi:http, and its world needs near:agent
    shutil.copy(HERE / recipe.sources[-1], wit)
    shutil.copy(HERE / "wit/http-client.wit", wit / "deps")
    shutil.copy(recipe.world, wit / "deps")
    embedded = out.with_name("embedded.wasm")
    _wasm_tools("component", "embed", wit, core, "-w", Path(recipe.sources[-1]).stem, "-o", embedded)
    _wasm_tools("component", "new", embedded, "-o", out)


def _compile_with_tinygo(recipe: Recipe, spec: Path, core: Path, prepare: bool) -> None:
    # Linked by Debian's LLVM and against its libraries: the Go module has the compiler, but not their sources.
    programs = ["go", "clang-19", "wasm-ld-19", "wasm-opt", "/usr/lib/llvm-19/bin/llvm-config"]
    libraries = [word for word in json.loads(spec.read_text())["ldflags"] if word.startswith("/")]
    absent = [program for program in programs if shutil.which(program) is None]
    absent += [library for library in libraries if not Path(library).is_file()]
    if absent:
        raise NotHere("tinygo", f"install {absent[0]}; .ci/run names Debian's packages, and Go is 1.25 or 1.26")
    place = toolchains_dir() / f"tinygo-{hashlib.sha256((HERE / 'tinygo/go.sum').read_bytes()).hexdigest()[:8]}"
    if not (place / "done").is_file():
        if not prepare:
            raise NotHere("tinygo", "python tests/sandbox/guests/build.py --prepare builds it from its Go module")
        _make_tinygo(place)
    command: list[str | Path] = [place / "tinygo", "build", "-target", spec, "-no-debug", "-o", core, "."]
    _run(command, cwd=HERE / recipe.sources[0], TINYGOROOT=str(place / "root"), GOTOOLCHAIN="local")


def _make_tinygo(place: Path) -> None:
    module, local = "github.com/tinygo-org/tinygo", os.environ | {"GOTOOLCHAIN": "local"}
    place.mkdir(parents=True, exist_ok=True)
    _run(["go", "build", "-tags", "llvm19", "-o", place / "tinygo", module], cwd=HERE / "tinygo", GOTOOLCHAIN="local")
    listed = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    found = subprocess.run(listed, cwd=HERE / "tinygo", env=local, capture_output=True, text=True, check=True)
    (place / "root/src/net").mkdir(parents=True, exist_ok=True)  # a submodule, and so not in the Go module
    for folder in ("src", "targets"):
        shutil.copytree(Path(found.stdout.strip(), folder), place / "root" / folder, dirs_exist_ok=True)
    (place / "done").touch()


_V030 = "near-agent/0.3.0/tool.wit"
_OURS = "wasmrt-tool/tool.wit"
_RUST = ("rust/Cargo.toml", "rust/Cargo.lock")


def _near_agent_rust(version: str) -> Recipe:
    feature = "unversioned" if version == "unversioned" else "v" + version.replace(".", "_")
    sources = (*_RUST, "rust/near-agent")
    return Recipe("rust", sources, f"near-agent/{version}/tool.wit", _rust, f"guest-near-agent:{feature}")


GUESTS: dict[str, Recipe] = {
    "echo-wat": Recipe("wat", ("wat/echo.wat",), _V030, _wat),
    "counter-wat": Recipe("wat", ("wat/counter.wat",), _V030, _wat),
    "host-wat": Recipe("wat", ("wat/host.wat",), _V030, _wat),
    "c": Recipe("zig", ("c/near_agent.c",), _V030, _c, "@0.3.0"),
    "c-unversioned": Recipe("zig", ("c/near_agent.c",), "near-agent/unversioned/tool.wit", _c, ""),
    "rust-unversioned": _near_agent_rust("unversioned"),
    "rust-0.2.0": _near_agent_rust("0.2.0"),
    "rust": _near_agent_rust("0.3.0"),
    "rust-0.4.1": _near_agent_rust("0.4.1"),
    "rust-tool": Recipe("rust", (*_RUST, "rust/tool"), _OURS, _rust, "guest-tool"),
    "rust-wasip2": Recipe("rust wasm32-wasip2", (*_RUST, "rust/wasip2"), _V030, _rust_wasip2, "guest-wasip2"),
    "rust-handler": Recipe(
        "rust wasm32-wasip2", (*_RUST, "rust/handler", "wit/config.wit"), _V030, _rust_wasip2, "guest-handler"
    ),
    "rust-http": Recipe("rust wasm32-wasip2", (*_RUST, "rust/http"), _V030, _rust_wasip2, "guest-http"),
    "python": Recipe("componentize-py", ("python",), _V030, _python),
    "python-stub": Recipe("componentize-py", ("python",), _V030, _python, "stub"),
    "python-http": Recipe("componentize-py", ("python-http", "wit/http-client.wit"), _V030, _python),
    "quickjs": Recipe("quickjs", ("js/near-agent.js",), _V030, _quickjs),
    "starlingmonkey": Recipe("starlingmonkey", ("js/near-agent.js",), _V030, _starlingmonkey),
    "starlingmonkey-fetch": Recipe("starlingmonkey", ("js/fetch.js",), _V030, _starlingmonkey, "fetch-event"),
    "go": Recipe("go", ("go",), _V030, _go),
    "tinygo": Recipe("tinygo", ("go", "tinygo"), _V030, _tinygo),
    "tinygo-wasip2": Recipe(
        "tinygo", ("go-modules", "tinygo", "wit/http-client.wit", "wit/go-modules.wit"), _V030, _tinygo_wasip2
    ),
}


def main(arguments: list[str]) -> int:
    prepare = "--prepare" in arguments
    names = [argument for argument in arguments if argument != "--prepare"] or list(GUESTS)
    unknown = sorted(set(names) - set(GUESTS))
    if unknown:
        print(f"no such guest: {', '.join(unknown)}; there are {', '.join(GUESTS)}", file=sys.stderr)
        return 2
    for name in names:
        made = build(name, prepare=prepare)
        if isinstance(made, Missing):
            print(f"{name:18} missing  {made.toolchain}: {made.reason}", flush=True)
        else:
            print(f"{name:18} {made.stat().st_size:>11,}  {made}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
