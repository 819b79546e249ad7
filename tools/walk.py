"""Trace one call: list the functions, files and areas of the package that it enters, in order.

    python tools/walk.py [echo|request|registry|approved] [--steps|--files]

`echo` is a warm call of the shipped echo tool with receipts. `request` is a call of a guest that makes one HTTP request
with a credential. `registry` is a warm call of the echo tool through a registry. `approved` is a call of a Python
function that a callback approves. Without options only the counts are printed. Each function counts once; a change is a
step from one area to another, by a call or by a return.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from wasmrt import WasmRuntimeConfig, WasmToolRuntime  # noqa: E402

PACKAGE = ROOT / "wasmrt"


def package_of(path: Path) -> str:
    """Return the area, or the module right below wasmrt/."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def trace(work: Callable[[], Any]) -> tuple[list[tuple[str, str]], int]:
    """Run `work`; return (file, function) of every function of the package that it entered, and the area changes."""
    steps: list[tuple[str, str]] = []
    stack: list[str] = []
    places: list[str] = []

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_flags & CO_GENERATOR:
            return
        if event == "call":
            steps.append((code.co_filename, code.co_qualname))
            stack.append(package_of(Path(code.co_filename)))
        elif event == "return" and stack:
            stack.pop()
        places.extend(stack[-1:])

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return steps, sum(before != after for before, after in pairwise(places))


@contextmanager
def echo(folder: Path) -> Iterator[Callable[[], Any]]:
    with WasmToolRuntime(WasmRuntimeConfig(audit=folder / "audit.jsonl")) as runtime:
        tool = runtime.prepare("echo", PACKAGE / "catalog" / "shipped" / "echo.wasm")
        params = json.dumps({"message": "hi"})
        tool.execute(params)
        yield lambda: tool.execute(params)


@contextmanager
def request(_folder: Path) -> Iterator[Callable[[], Any]]:
    from wasmrt.testing.attacks import Body, tool
    from wasmrt.testing.attacks._build import TEXT_AT

    from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
    from wasmrt.egress.gateway import NetworkConfig, WholeBody, WireResponse
    from wasmrt.egress.secrets import DEFAULT_USER, Entry, EntryStore, Secret
    from wasmrt.sandbox.guest.engine import wat2wasm

    class Secrets(EntryStore):
        def __init__(self) -> None:
            super().__init__()
            self.entries: dict[tuple[str, str], Entry] = {}

        def _read(self, user: str, name: str) -> Entry | None:
            return self.entries.get((user, name))

        def _write(self, user: str, name: str, entry: Entry) -> None:
            self.entries[user, name] = entry

        def _delete(self, user: str, name: str) -> bool:
            return self.entries.pop((user, name), None) is not None

        def _names(self, user: str) -> list[str]:
            return [name for owner, name in self.entries if owner == user]

    class Resolver:
        def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
            return ("93.184.215.14",)

    class Wire:
        def send(self, *_: object) -> WireResponse:
            return WireResponse(200, [(b"content-type", b"text/plain")], WholeBody(b"hello"))

        def close(self) -> None:
            pass

    text = b"GEThttps://api.example.com/{}"
    parts = (0, 3, 3, 24, 27, 2)
    places = " ".join(f"(i32.const {TEXT_AT + n if at % 2 == 0 else n})" for at, n in enumerate(parts))
    ask = f"(call $http-request {places} {'(i32.const 0) ' * 5} (i32.const 256)) (call $ok)"
    guest = Body(imports=("http-request",), text=text, execute=ask)
    secrets = Secrets()
    secrets.set(DEFAULT_USER, "api", Secret("tr0ub4dor&3-" + "correct-horse"))
    credential = CredentialMapping(
        name="api",
        secret_name="api",
        location=CredentialLocation.bearer(),
        host_patterns=("api.example.com",),
    )
    grant = Capabilities.none().with_http(
        HttpCapability((EndpointPattern("api.example.com"),), credentials=(credential,))
    )
    network = NetworkConfig(resolver=Resolver(), transport=Wire())
    with WasmToolRuntime(WasmRuntimeConfig(network=network, secrets=secrets, cache_compiled=False)) as runtime:
        made = runtime.prepare("asker", wat2wasm(tool(guest)), grant)
        made.execute({})
        yield lambda: made.execute({})


@contextmanager
def registry(folder: Path) -> Iterator[Callable[[], Any]]:
    from wasmrt import ToolRegistry

    with WasmToolRuntime(WasmRuntimeConfig(audit=folder / "audit.jsonl")) as runtime:
        tools = ToolRegistry(runtime)
        tools.register(runtime.prepare("echo", PACKAGE / "catalog" / "shipped" / "echo.wasm"), builtin=True)
        tools.execute("echo", {"message": "hi"})
        yield lambda: tools.execute("echo", {"message": "hi"})


@contextmanager
def approved(_folder: Path) -> Iterator[Callable[[], Any]]:
    from wasmrt import ApprovalAnswer, CallbackApprover, ToolRegistry, tool

    @tool(effects=["write-filesystem"])
    def write_note(name: str) -> str:
        """Write a note."""
        return f"wrote {name}"

    tools = ToolRegistry(approver=CallbackApprover(lambda _: ApprovalAnswer(approved=True, by="ann")))
    tools.register(write_note)
    tools.execute("write_note", {"name": "plan"})
    yield lambda: tools.execute("write_note", {"name": "plan"})


MODES = {"echo": echo, "request": request, "registry": registry, "approved": approved}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/walk.py", description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=tuple(MODES), default="echo")
    parser.add_argument("--steps", action="store_true", help="print every function")
    parser.add_argument("--files", action="store_true", help="print every file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, MODES[options.what](Path(folder)) as run:
        steps, changes = trace(run)
    packages = [package_of(Path(file)) for file, _ in steps]
    if options.steps:
        for package, (file, function) in zip(packages, steps, strict=True):
            print(f"{package:<16} {Path(file).name}:{function}")
    files = {file for file, _ in steps}
    if options.files:
        for file in sorted(files):
            print(Path(file).relative_to(PACKAGE))
    print(f"{options.what}: {len(steps)} calls of {len(set(steps))} functions in {len(files)} files; ", end="")
    print(f"{changes} changes among {len(set(packages))} areas")
    return 0


if __name__ == "__main__":
    sys.exit(main())
