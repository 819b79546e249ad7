"""`wasmrt install oci://` of a tool of 3 MB, compared with wkg's crate and with a plain download by httpx.

    python -m benches.bench_install [--quick]

Needs docker-registry and, for wkg's crate, cargo (see tests/cli/wkg). Every figure is the processor time of a process
or a call, without the registry's. wkg reads without TLS and is not optimised, except its hashing; the others use TLS.
"""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme

from benches._measure import Line, Report, Table, median, ratio, run, shown
from tests.cli.distribution import REGISTRY, build_wkg, serve
from wasmrt.catalog.bundled import FOLDER
from wasmrt.catalog.registry import Access, OciSource, Reference, Send
from wasmrt.egress.gateway import EgressGateway, HttpRequest, HttpResponse, NetworkConfig, send_for_user

TOOL = FOLDER / "code.wasm"
NAME = "acme/code"
DOWNLOAD = """
import ssl, sys, httpx
tls = ssl.create_default_context(cafile=sys.argv[2])
with httpx.Client(verify=tls, trust_env=False) as client:
    open(sys.argv[3], "wb").write(client.get(sys.argv[1]).raise_for_status().content)
"""


class Hosts(NamedTuple):
    tls: str
    plain: str


def measure(quick: bool) -> Report:
    report = Report()
    if REGISTRY is None:
        report.skipped.append("docker-registry is missing (apt install docker-registry)")
        return report
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        hosts = _serve(stack, folder)
        os.environ |= {"WASMRT_HOME": str(folder / "home"), "DOCKER_CONFIG": str(folder)}
        command = [sys.executable, "-m", "wasmrt"]
        url = f"oci://{hosts.tls}/{NAME}:1.0.0"
        _processor_time([*command, "push", url, TOOL, "--quiet"])
        blob = _find_blob(folder, hosts)
        remove, install = ([*command, *rest, "--yes"] for rest in (["remove", "code"], ["install", url]))
        ways: dict[str, Callable[[], int]] = {
            "httpx, a process": lambda: _processor_time(
                [sys.executable, "-c", DOWNLOAD, blob, folder / "ca.pem", folder / "download"]
            ),
            "wasmrt install, a process": lambda: (_processor_time(install), _processor_time(remove))[0],
            **_fetches(stack, folder, url, blob),
        }
        try:
            pull = [build_wkg(), "pull", f"{hosts.plain}/{NAME}:1.0.0", folder / "pulled"]
            ways["wkg's crate, a process"] = lambda: _processor_time(pull)
        except pytest.skip.Exception as reason:
            report.skipped.append(f"wkg's crate: {reason}")
        first = ways["wasmrt install, a process"]()  # compiles the tool
        times: dict[str, list[int]] = {way: [] for way in ways}
        for _ in range(5 if quick else 25):
            for way, work in ways.items():
                times[way].append(work())
    return _fill(report, times, first)


def _fill(report: Report, times: dict[str, list[int]], first: int) -> Report:
    rows = [[way, shown(median(each))] for way, each in times.items()]
    rows.append(["wasmrt install, compiling the tool (once)", shown(first)])
    report.tables.append(Table(f"A tool of {TOOL.stat().st_size:,} bytes (processor time)", ["way", "median"], rows))
    pairs = [
        ("wasmrt install, a process", "httpx, a process"), ("wasmrt install, a process", "wkg's crate, a process"),
        ("wasmrt's client, a call", "httpx, a call"),
    ]  # fmt: skip
    for way, other in pairs:
        if other in times:
            seen, low = ratio(times[way], times[other])
            report.lines.append(Line(f"{way}, over {other}", seen, low=low))
    return report


def _serve(stack: ExitStack, folder: Path) -> Hosts:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    pem = folder / "tls.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    data = folder / "home/data"
    data.mkdir(parents=True)
    (data / "config.toml").write_text(
        f'[network]\nunsafe_allowed_networks = ["127.0.0.0/8"]\nca_file = "{folder}/ca.pem"\n'
    )
    tls = f"http: {{addr: '127.0.0.1:0', tls: {{certificate: {pem}, key: {pem}}}}}\n"
    settings = {"tls": tls, "plain": "http: {addr: '127.0.0.1:0'}\n"}
    ports = [stack.enter_context(serve(folder / name, text, store=folder / "store")) for name, text in settings.items()]
    return Hosts(*(f"127.0.0.1:{port}" for port in ports))


def _find_blob(folder: Path, hosts: Hosts) -> str:
    """Return the URL of the component in the registry."""
    tls = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    url = f"https://{hosts.tls}/v2/{NAME}"
    manifest = httpx.get(f"{url}/manifests/1.0.0", verify=tls, headers=accept, trust_env=False).json()
    return f"{url}/blobs/{manifest['layers'][0]['digest']}"


def _fetches(stack: ExitStack, folder: Path, url: str, blob: str) -> dict[str, Callable[[], int]]:
    """Return the download by httpx and by wasmrt's client in this process, both with open connections."""
    tls = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client = stack.enter_context(httpx.Client(verify=tls, trust_env=False))
    network = NetworkConfig(unsafe_allowed_networks=("127.0.0.1/32",), ca_file=folder / "ca.pem")
    gateway = stack.enter_context(EgressGateway(network))

    def send(
        origin: str, method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        request = HttpRequest(method, url, headers, body)
        user = str(time.monotonic_ns())  # each has its own rate limit
        return send_for_user(gateway, origin, request, name="install", user=user, max_bytes=max_bytes)

    def connect(reference: Reference) -> nullcontext[Send]:
        return nullcontext(partial(send, reference.origin))

    source = OciSource(url, Access(connect, lambda _host: None))
    return {
        "httpx, a call": lambda: _call_time(lambda: client.get(blob).raise_for_status().content),
        "wasmrt's client, a call": lambda: _call_time(lambda: source.fetch(max_bytes=2**23)),
    }


def _call_time(work: Callable[[], object]) -> int:
    started = time.process_time_ns()
    work()
    return time.process_time_ns() - started


def _processor_time(command: Sequence[str | Path]) -> int:
    """Run a process, and return the nanoseconds of processor time of it and of its children."""
    with open(os.devnull, "w") as quiet:  # noqa: PTH123
        actions = [(os.POSIX_SPAWN_DUP2, quiet.fileno(), 1), (os.POSIX_SPAWN_DUP2, quiet.fileno(), 2)]
        pid = os.posix_spawn(command[0], list(map(str, command)), os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


if __name__ == "__main__":
    sys.exit(run(measure))
