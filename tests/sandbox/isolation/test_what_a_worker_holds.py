"""An escape from the engine finds no data of the host, of other users or of other tools."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from wasmrt.testing import FakeResolver, MemorySecrets, ReceivedRequest, ScriptedServer, ServerConnection
from wasmrt.testing.attacks import Body, tool

from tests.egress.gateway.world import HOST
from tests.sandbox.isolation.conftest import ECHO, process_of, program_of
from tests.sandbox.isolation.conftest import prepared as prepare
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import Secret
from wasmrt.sandbox.guest.engine import wat2wasm
from wasmrt.sandbox.isolation.pool.control import unlimited_lifetime

SECRET = "kept-" + "by-the-host-alone-" + "4711"
OTHERS = "what another user " + "said in confidence"


def asks(url: bytes) -> bytes:
    """A component that sends one request."""
    call = f"""(call $fetch (i32.const 0) (i32.const 1024) (i32.const {len(url)}) {"(i32.const 0) " * 7}
      (i32.const 256)) (call $ok)"""
    return wat2wasm(tool(Body(imports=("fetch",), text=url, execute=call)))


def memory_of(process: int) -> list[bytes]:
    """Everything that a process has mapped and written; requires root and is skipped otherwise."""
    if not os.access(f"/proc/{process}/mem", os.R_OK):
        pytest.skip("only root may look into the memory of a worker")
    maps = Path(f"/proc/{process}/maps").read_text().splitlines()
    pieces = []
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(part, 16) for part in span.split("-"))
            if not rights.startswith("rw") or end - start > 2**30:
                continue  # the pool's reservation, almost unused
            try:
                memory.seek(start)
                pieces.append(memory.read(end - start))
            except (OSError, ValueError, OverflowError):
                continue
    return pieces


def holds(process: int, text: str) -> bool:
    return any(text.encode() in piece for piece in memory_of(process))


def family_of(process: int) -> list[int]:
    """A worker, the template that it was forked from, and the zygote."""
    found = [process]
    for _ in range(2):
        stat = Path(f"/proc/{found[-1]}/stat").read_text()
        found.append(int(stat.rpartition(")")[2].split()[1]))
    return found


@pytest.mark.ci("slow")
def test_an_injected_secret_is_only_in_the_host_process(server_tls: Callable[..., object], ca_file: Path) -> None:
    store = MemorySecrets()
    store.set("ann", "api_token", Secret(SECRET))
    seen: list[str | None] = []

    def script(request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        seen.append(request.header("Authorization"))
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    with ScriptedServer(script, tls=server_tls()) as server:  # type: ignore[arg-type]
        network = NetworkConfig(
            ca_file=ca_file, resolver=FakeResolver({HOST: ["127.0.0.1"]}), unsafe_allowed_networks=("127.0.0.0/8",)
        )
        mapping = CredentialMapping(
            secret_name="api_token", location=CredentialLocation.bearer(), host_patterns=(HOST,)
        )
        http = HttpCapability(allowlist=(EndpointPattern(HOST, ports=(server.port,)),), credentials=(mapping,))
        config = WasmRuntimeConfig(cache_compiled=False, network=network, secrets=store)
        with WasmToolRuntime(config) as runtime:
            url = f"https://{HOST}:{server.port}/".encode()
            prepared = runtime.prepare("asks", asks(url), Capabilities.none().with_http(http))
            prepared.execute({}, user="ann")
            assert holds(os.getpid(), SECRET)  # proves that the search works
            for process in family_of(process_of(prepared, "ann")):
                assert not holds(process, SECRET)
    assert seen


def test_a_worker_has_no_data_of_other_users_or_tools(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo, other = prepare(runtime, ECHO), runtime.prepare("other", wat2wasm(tool(ECHO)))
    echo.execute({"text": OTHERS}, user="ann")
    echo.execute({}, user="bob")
    other.execute({}, user="ann")
    assert holds(process_of(echo, "ann"), OTHERS)
    assert not holds(process_of(echo, "bob"), OTHERS)
    assert not holds(process_of(other, "ann"), OTHERS)


def test_sandbox_processes_have_no_environment_variables(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = prepare(runtime, ECHO)
    echo.execute({})
    for process in family_of(process_of(echo)):
        assert Path(f"/proc/{process}/environ").read_bytes() in (b"", b"LC_CTYPE=C.UTF-8\0")


def test_a_worker_has_only_its_socket_and_its_code_open(runtime: WasmToolRuntime) -> None:
    echo = prepare(runtime, ECHO)
    echo.execute({})
    worker, template, zygote = family_of(process_of(echo))
    kinds = {os.readlink(f"/proc/{worker}/fd/{name}").partition(":")[0] for name in os.listdir(f"/proc/{worker}/fd")}
    assert kinds == {"socket", "/dev/null", "/memfd"}
    for process in (worker, template, zygote):
        for name in os.listdir(f"/proc/{process}/fd"):
            assert os.readlink(f"/proc/{process}/fd/{name}").startswith(
                ("socket:", "/dev/null", "/memfd:", "anon_inode:", "/proc/", "pipe:")
            )


@pytest.mark.parametrize("which", ["worker", "template"])
def test_processes_that_handle_untrusted_bytes_are_sealed(runtime: WasmToolRuntime, which: str) -> None:
    echo = prepare(runtime, ECHO)
    echo.execute({})
    worker, template, zygote = family_of(process_of(echo))
    process = {"worker": worker, "template": template}[which]
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapBnd"], 16) * (os.getuid() == 0) == 0
    assert "Seccomp:\t0" in Path(f"/proc/{zygote}/status").read_text()  # it reads no untrusted data


def libraries_of(process: int) -> dict[str, int]:
    """The first address of each library that a process has mapped; requires root and is skipped otherwise."""
    if not os.access(f"/proc/{process}/maps", os.R_OK):
        pytest.skip("only root may read the mappings of a worker")
    found: dict[str, int] = {}
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        span, _, _, _, _, *name = line.split(None, 5)
        if name and name[0].startswith("/") and ".so" in name[0]:
            found.setdefault(name[0], int(span.partition("-")[0], 16))
    assert found
    return found


def test_each_component_has_an_address_layout_of_its_own(runtime: WasmToolRuntime) -> None:
    """Otherwise a component that escaped the engine would know the addresses in the workers of other components."""
    echo, other = prepare(runtime, ECHO), runtime.prepare("other", wat2wasm(tool(Body(execute="(call $ok)"))))
    for each in (echo, other):
        each.execute({}, user="ann")
    echo.execute({}, user="bob")
    ann, bob, others = (
        libraries_of(process_of(echo, "ann")), libraries_of(process_of(echo, "bob")),
        libraries_of(process_of(other, "ann")),
    )  # fmt: skip
    assert ann.keys() == others.keys()
    assert not [name for name, start in ann.items() if others[name] == start]
    assert ann == bob  # as documented: workers of one component are forked from one process


def test_a_restarted_template_has_another_address_layout(runtime: WasmToolRuntime) -> None:
    echo = prepare(runtime, ECHO)
    echo.execute({})
    before = libraries_of(process_of(echo))
    assert program_of(echo).unload_idle(unlimited_lifetime())
    echo.execute({})
    after = libraries_of(process_of(echo))
    assert not [name for name, start in before.items() if after.get(name) == start]
