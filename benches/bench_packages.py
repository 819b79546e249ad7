"""1,000 tools of 20 packages: listing them, every definition for a model, and preparing one of them.

    python benches/bench_packages.py [rounds]

Exits with 1 if a definition takes over 2 ms, or preparing one of twenty packages over twice the time of one alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wasmrt.testing.attacks import Body, tool

from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import Capabilities, EndpointPattern, ToolGrant
from wasmrt.capabilities.file import format_file
from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.catalog._stored import dump_tools
from wasmrt.catalog.find import find_tool
from wasmrt.core.component_bytes import ComponentBytes, digest_of
from wasmrt.sandbox.component import ToolSpec
from wasmrt.sandbox.guest.engine import wat2wasm

PACKAGES, TOOLS = 20, 50
DEFINITION_SECONDS, PREPARE_RATIO = 0.002, 2.0
SCHEMA = {
    "type": "object",
    "properties": {f"field_{number}": {"type": "string", "description": "A field."} for number in range(8)},
    "required": ["field_0"],
    "additionalProperties": False,
}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    component = ComponentBytes(wat2wasm(tool(Body())))
    with tempfile.TemporaryDirectory() as folder:
        one, many = fill(Path(folder) / "one", component, 1), fill(Path(folder) / "many", component, PACKAGES)
        with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=True, cache_dir=Path(folder) / "cache")) as runtime:

            def prepare(data: Path) -> object:
                found = find_tool("package-00", data)
                return runtime.prepare(found.name, found.component, found.grant, tools=found.tools)

            prepare(many)  # compile once
            listed = best(rounds, lambda: Catalog(many).tools())
            alone, among = best(rounds, lambda: prepare(one)), best(rounds, lambda: prepare(many))
            prepared = runtime.prepare("package-00", component, tools=find_tool("package-00", many).tools)
            each = best(rounds, lambda: [prepared.tool(t.name).definition("openai") for t in prepared.tools]) / TOOLS
    print(f"list         {PACKAGES * TOOLS} tools {listed * 1000:7.2f} ms")
    print(f"definitions  {PACKAGES * TOOLS} tools {each * PACKAGES * TOOLS * 1000:7.1f} ms, {each * 1e6:.0f} us each")
    print(f"prepare      one of {PACKAGES} packages {among * 1000:7.2f} ms, alone {alone * 1000:.2f} ms")
    return int(each > DEFINITION_SECONDS or among > PREPARE_RATIO * alone)


def best(rounds: int, work: Callable[[], object]) -> float:
    """Return the seconds of the best round: on a busy machine medians depend on other load."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def fill(data: Path, component: ComponentBytes, count: int) -> Path:
    """Create a catalog of `count` packages with fifty tools each."""
    names = [f"tool_{number:02}" for number in range(TOOLS)]
    read = Capabilities.none().with_http([EndpointPattern("api.example.com", "/v1/", ("GET", "HEAD"))])
    asked = Capabilities.none().with_http([EndpointPattern("api.example.com")])
    asked = asked.with_tools(ToolGrant(name, read) for name in names)
    text, world = format_file(asked), "near:agent/tool@0.3.0"
    for number in range(count):
        package = f"package-{number:02}"
        tools = tuple(ToolSpec(name, "Does a thing.", SCHEMA, capability_id=f"{package}.{name}") for name in names)
        info = ComponentInfo(world=world, tools=TOOLS, schema_digest=digest_of(package.encode()))
        Catalog(data).add(
            NewVersion(
                name=package, component=component, info=info, sidecar=text, package=dump_tools(tools), tools=TOOLS
            ),
            text,
        )
    return data


if __name__ == "__main__":
    sys.exit(main())
