"""The guests of the benches, and the parameters of their calls."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sandbox.guests.build import ROOT, Missing, build
from wasmrt.authoring.project import find_wasm_tools

PROVIDER = "wasmrt:tool/provider@0.1.0"
AGENT = "near:agent/tool@0.3.0"
_TOOLS = Path(__file__).parents[1] / "wasmrt" / "catalog" / "shipped"
_JSON_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Guest:
    """A component, and the call that all implementations make."""

    key: str
    title: str
    path: Path
    interface: str
    tool: str
    params: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.params)


def guests() -> tuple[list[Guest], list[str]]:
    """Return the guests that are available here, and the reasons why others are not."""
    found = [
        Guest("rust-echo", "Rust echo", _TOOLS / "echo.wasm", PROVIDER, "echo", {"message": "hi"}),
        Guest("rust-json", "Rust, JSON of 100 KB", _TOOLS / "json.wasm", PROVIDER, "json", _json_work()),
    ]
    skipped = []
    for key, title, name in (
        ("wat-echo", "WAT echo", "echo-wat"),
        ("quickjs-echo", "QuickJS echo", "quickjs"),
        # Without WASI, so that C can call it, too; every import is a trap there.
        ("python-echo", "Python echo", "python-stub"),
    ):
        made = build(name)
        if isinstance(made, Missing):
            skipped.append(f"{title}: toolchain {made.toolchain} is missing: {made.reason}")
        else:
            found.append(Guest(key, title, _kept(made), AGENT, "", {"message": "hi"}))
    return found, skipped


def near_agent_component(text: str) -> bytes:
    """Return a component of near:agent@0.3.0 whose core module is WebAssembly text."""
    wit = ROOT / "wit" / "near-agent" / "0.3.0"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "core.wat").write_text(text)
        wasm_tools = find_wasm_tools()
        wasm_tools.run("component", "embed", wit, "core.wat", "-o", "embedded.wasm", cwd=folder)
        wasm_tools.run("component", "new", "embedded.wasm", "-o", "component.wasm", cwd=folder)
        return (folder / "component.wasm").read_bytes()


def _kept(built: Path) -> Path:
    """Copy a guest for the duration of this process, because a concurrent build of guests removes old ones."""
    copy = _folder() / built.name
    if not copy.is_file():
        shutil.copyfile(built, copy)
    return copy


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


def _json_work() -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    size = 0
    while size < _JSON_BYTES:
        number = len(items)
        item = {"id": number, "name": f"item number {number}", "tags": ["one", "two"], "price": number * 1.25}
        items.append(item)
        size += len(json.dumps(item)) + 2
    return {"operation": "query", "data": {"items": items}, "path": "$.items[?@.price < 10].name"}
