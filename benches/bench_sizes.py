"""The cost of calls by size: 1 KiB, 64 KiB and 1 MiB of parameters, of results, and of HTTP bodies.

    python -m benches.bench_sizes [--quick]

The body is sent and returned as `list<u8>` through the import `http-request`. Raw wasmtime-py and the bare engine
return the body unchanged; the whole path uses the gateway with a stub instead of the network.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wasmrt.testing import FakeResolver

from benches import _ways as ways
from benches._guests import AGENT, near_agent_component
from benches._measure import Line, Report, Table, in_turn, median, ratio, run, shown
from wasmrt import PreparedTool
from wasmrt.egress.gateway import NetworkConfig

KIB, MIB = 1024, 1024 * 1024
SIZES = {"1 KiB": KIB, "64 KiB": 64 * KIB, "1 MiB": MIB}
WHAT = {"params": "p", "result": "r", "HTTP body, both ways": "h"}
ROOT = Path(__file__).parents[1]
HOST = "near:agent/host@0.3.0"


def measure(quick: bool) -> Report:
    report = Report()
    component = make_component()
    network = NetworkConfig(resolver=FakeResolver({"api.example.com": ["93.184.216.34"]}), transport=_Canned())
    columns = ["what", "size", "raw wasmtime-py", "wasmrt bare", "whole", "whole, in a worker"]
    columns += [f"{way} over raw" for way in columns[3:]]
    table = Table("What calls carry (medians)", columns, [])
    with ways.runtime(network=network, isolation="in-process") as runtime, ways.runtime(network=network) as workers:
        tools = [each.prepare("sizes", component, ways.grant()) for each in (runtime, workers)]
        raw, bare = _raw(component), _bare(component)
        for what, letter in WHAT.items():
            for size, count in SIZES.items():
                params = {letter: "x" * count if letter == "p" else count}
                text = f'{{"p":"{params["p"]}"}}' if letter == "p" else f'{{"{letter}":{count}}}'
                times = _compare(raw, bare, tools, params, text, quick)
                over_raw = [f"{ratio(taken, times[0])[0]:.3f}" for taken in times[1:]]
                table.rows.append([what, size, *(shown(median(taken)) for taken in times), *over_raw])
                if letter == "h" and count == MIB:
                    _tell(report, times)
    report.tables.append(table)
    return report


def make_component() -> bytes:
    """Return the guest that copies bytes."""
    return near_agent_component(Path(__file__).with_name("sizes.wat").read_text())


def _compare(
    raw: Callable[[str], str],
    bare: Callable[[str], str],
    tools: list[PreparedTool],
    params: dict[str, Any],
    text: str,
    quick: bool,
) -> list[list[int]]:
    assert raw(text) == bare(text) == tools[0].execute(params).raw == tools[1].execute(params).raw
    every = [
        ways.Here("raw", lambda: raw(text)),
        ways.Here("bare", lambda: bare(text)),
        ways.Here("whole", lambda: tools[0].execute(params)),
        ways.Here("whole, in a worker", lambda: tools[1].execute(params)),
    ]
    times = in_turn(every, 3 if quick else 15)
    return [times[way.name] for way in every]


def _tell(report: Report, times: list[list[int]]) -> None:
    seen, low = ratio(times[1], times[0])
    report.lines.append(
        Line("1 MiB of bytes through an HTTP import, each way, over wasmtime-py's own conversion", seen, 0.1, low=low)
    )
    seen, low = ratio(times[2], times[0])
    note = "allowlist, credential, leak scan of both bodies and all"
    report.lines.append(Line("the same through the whole guarded path", seen, low=low, note=note))


def _raw(component: bytes) -> Callable[[str], str]:
    from wasmtime import Config, Engine, Store
    from wasmtime.component import Component, Linker, Record

    config = Config()
    config.wasm_component_model = True
    config.consume_fuel = True
    config.epoch_interruption = True
    engine = Engine(config)
    compiled = Component(engine, component)
    linker = Linker(engine)

    def answer(_store: Any, _method: str, _url: str, _headers: str, body: bytes, _timeout: int | None) -> Any:
        return _record(Record(), {"status": 200, "headers-json": "{}", "body": body})

    with linker.root() as root, root.add_instance(HOST) as host:
        host.add_func("http-request", answer)
    index = compiled.get_export_index("execute", compiled.get_export_index(AGENT))
    assert index is not None

    def call(params: str) -> str:
        store = Store(engine)
        store.set_fuel(ways.FUEL)
        store.set_epoch_deadline(1000)
        store.set_limits(memory_size=ways.MEMORY_BYTES)
        function = linker.instantiate(store, compiled).get_func(store, index)
        assert function is not None
        response = function(store, _record(Record(), {"params": params, "context": None}))
        function.post_return(store)
        store.close()
        return str(response.output)

    return call


def _record(record: Any, values: dict[str, Any]) -> Any:
    for name, value in values.items():
        setattr(record, name, value)
    return record


def _bare(component: bytes) -> Callable[[str], str]:
    from wasmrt.sandbox.component import Ok
    from wasmrt.sandbox.guest.engine import Export, HostInterface, Linker, Sandbox, StoreLimits

    def answer(_call: Any, _method: str, _url: str, _headers: str, body: bytes, _timeout: int | None) -> Ok:
        return Ok({"status": 200, "headers-json": "{}", "body": body})

    compiled = ways.compiled(component)
    linker = Linker(compiled, [HostInterface(HOST, {"http-request": answer})])
    interface = compiled.type.export(AGENT)
    kind = None if interface is None else interface.function("execute")
    assert kind is not None
    export = Export(linker, (AGENT, "execute"), kind)
    limits = StoreLimits(
        memory_bytes=ways.MEMORY_BYTES, memories=1, table_elements=20_000, tables=16, instances=64, fuel=ways.FUEL
    )
    nobody = ways.NoCall()

    def call(params: str) -> str:
        with Sandbox(linker, limits, nobody) as sandbox:
            sandbox.instantiate()
            return str(sandbox.call(export, {"params": params, "context": None})["output"])

    return call


class _Canned:
    """A stub of the network that returns each request's body."""

    def send(self, request: Any, addresses: Sequence[str], budget: Any) -> Any:
        from wasmrt.egress.gateway import WholeBody, WireResponse

        return WireResponse(200, ((b"content-type", b"text/plain"),), WholeBody(request.body or b""))

    def close(self) -> None: ...


if __name__ == "__main__":
    sys.exit(run(measure))
