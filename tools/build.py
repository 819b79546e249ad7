"""Build the first-party tools to components in wasmrt/catalog/shipped, and write down what they were built from.

python tools/build.py            build those whose source changed since
python tools/build.py NAME ...   build these, changed or not
python tools/build.py --check    build nothing; fail when a shipped component is older than its source
python tools/build.py --again    build all in an empty folder; fail when a byte differs from what is shipped
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from wasmrt.authoring.project import find_wasm_tools  # noqa: E402

SHIPPED = ROOT / "wasmrt/catalog/shipped"
MANIFEST = SHIPPED / "manifest.json"
TOOLS = ("code", "echo", "files", "json", "time", "web")
APART = ("code",)
"""Tools that are a workspace of their own, with their own lock file and profile."""
TARGET = "wasm32-unknown-unknown"
FLAGS = ("-Clink-arg=-zstack-size=131072",)
FLAGS_OF = {
    # An interpreter recurses; and its randomness comes from us, since the target has none.
    "code": ("-Clink-arg=-zstack-size=2097152", "--cfg", 'getrandom_backend="custom"'),
}


def sources(tool: str) -> list[Path]:
    """Every file that decides what a tool's component is, this script and the world included."""
    folders = [HERE / tool, HERE / "kit", ROOT / "wit/wasmrt-tool"]
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted([*found, HERE / "Cargo.toml", HERE / "Cargo.lock", HERE / "build.py"])


def source_digest(tool: str) -> str:
    """sha256 over names and bytes of the sources: equal digests, equal sources."""
    digest = hashlib.sha256()
    for path in sources(tool):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def stale() -> dict[str, str]:
    """Tools whose shipped component does not belong to the present source, each with the reason."""
    recorded = json.loads(MANIFEST.read_text()) if MANIFEST.is_file() else {}
    reasons = {tool: _reason(tool, recorded.get(tool)) for tool in TOOLS}
    return {tool: reason for tool, reason in reasons.items() if reason}


def _reason(tool: str, entry: dict[str, str] | None) -> str | None:
    component = SHIPPED / f"{tool}.wasm"
    if entry is None or not component.is_file():
        return "it was never built"
    if entry["source_sha256"] != source_digest(tool):
        return "its source changed after it was built"
    if entry["component_sha256"] != hashlib.sha256(component.read_bytes()).hexdigest():
        return "it is not the component that was built"
    return None


def build(tool: str, target: Path | None = None) -> bytes:
    """Compile one tool by itself: built together, cargo would give all of them each other's features."""
    target = target or Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    command = ["cargo", "build", "--locked", "--release", "--target", TARGET, "-p", tool]
    # The encoded form allows spaces in paths.
    flags = "\x1f".join([*_remaps(tool), *FLAGS_OF.get(tool, FLAGS)])
    env = os.environ | {"CARGO_TARGET_DIR": str(target), "CARGO_ENCODED_RUSTFLAGS": flags}
    subprocess.run(command, cwd=workspace(tool), env=env, check=True)
    core = target / TARGET / f"release/{tool}.wasm"
    with TemporaryDirectory() as folder:  # wit-bindgen has embedded the world
        find_wasm_tools().run("component", "new", core, "-o", "tool.wasm", cwd=Path(folder))
        return Path(folder, "tool.wasm").read_bytes()


def workspace(tool: str) -> Path:
    """The folder of the lock file that a tool is built by."""
    return HERE / tool if tool in APART else HERE


def _remaps(tool: str) -> list[str]:
    """Panic messages name source files: name them by crate, not by where this machine keeps them."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    subprocess.run(["cargo", "fetch", "--locked"], cwd=workspace(tool), check=True)
    indexes = sorted((home / "registry/src").iterdir())
    places = {str(ROOT): "wasmrt"} | {str(place): "crates" for place in indexes}
    return [f"--remap-path-prefix={place}={name}" for place, name in places.items()]


def _ship(tool: str, component: bytes) -> None:
    SHIPPED.mkdir(exist_ok=True)
    (SHIPPED / f"{tool}.wasm").write_bytes(component)
    recorded = json.loads(MANIFEST.read_text()) if MANIFEST.is_file() else {}
    recorded[tool] = {
        "component_sha256": hashlib.sha256(component).hexdigest(),
        "size_bytes": len(component),
        "source_sha256": source_digest(tool),
    }
    MANIFEST.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")


def _build_again() -> int:
    with TemporaryDirectory() as folder:
        differ = [tool for tool in TOOLS if build(tool, Path(folder)) != (SHIPPED / f"{tool}.wasm").read_bytes()]
    for tool in differ:
        print(f"{tool}: another build of it has other bytes", file=sys.stderr)
    return 1 if differ else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--again"]:
        return _build_again()
    out_of_date = stale()
    if arguments == ["--check"]:
        for tool, reason in out_of_date.items():
            print(f"{tool}: {reason}; run python tools/build.py", file=sys.stderr)
        return 1 if out_of_date else 0
    unknown = set(arguments) - set(TOOLS)
    if unknown:
        print(f"no such tool: {', '.join(sorted(unknown))}; there are {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    for tool in arguments or out_of_date:
        component = build(tool)
        _ship(tool, component)
        print(f"{tool}: {len(component)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
