"""kill -9 during `install`, `update` and `import`: the catalog has the old or the new tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import BUNDLED
from tests.cli.registry import COMPONENT, REQUEST, config_of, serve_registry
from tests.tiers import kills

Run = Callable[..., Result]
pytestmark = [
    pytest.mark.ci("kills"),
    pytest.mark.usefixtures("unmeasured"),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfds"),
]
KILLS = kills(8)
WASM = "application/wasm"
WIDER = REQUEST.replace(b"api.", b"*.")

# Runs a command in child processes, each in a copy of the same installation, and kills each child at another moment.
# Prints one JSON object: the number of killed children, and how often each state was found.
KILL_AT_EVERY_MOMENT = textwrap.dedent("""
    import json, os, select, shutil, signal, sys, time
    from pathlib import Path
    from click.testing import CliRunner
    from wasmrt.catalog import Catalog
    from wasmrt.cli import cli
    import wasmrt.cli.grant.import_, wasmrt.cli.grant.install, wasmrt.cli.grant.update
    from wasmrt.core.places import find_places

    before, kills, command = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    folder = before.with_name("now")

    def start():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before, folder, symlinks=True)
        child = os.fork()
        if child == 0:
            os.environ["WASMRT_HOME"] = str(folder)
            os.chdir(folder)
            os._exit(CliRunner().invoke(cli, command).exit_code)
        return child

    def end(child, seconds):
        pidfd = os.pidfd_open(child)
        if not select.select([pidfd], [], [], seconds)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
        return os.WIFSIGNALED(status)

    def look(home):
        os.environ["WASMRT_HOME"] = str(home)
        catalog = Catalog(find_places().data)
        assert all(finding.problem is None for finding in catalog.verify()), "half a component"
        tools = [version for tool in catalog.tools() for version in catalog.versions(tool.name)]
        whole = [[v.name, v.number, v.digest, v.sidecar, v.grant, v.active, v.provenance] for v in tools]
        return json.dumps(whole), (home / "wasmrt.lock").read_text()

    took = 60.0
    for _ in range(3):
        begun = time.monotonic()
        assert not end(start(), 120)
        took = min(took, time.monotonic() - begun)
    old, new = look(before), look(folder)
    assert old[0] != new[0]
    states = {old: "old", new: "new", (new[0], old[1]): "new with the old lock file"}
    killed, seen = 0, dict.fromkeys(states.values(), 0)
    for number in range(kills):
        killed += end(start(), took * (0.4 + (number + 1) / kills))
        state = look(folder)
        assert state in states, "neither the old nor the new: " + state[0]
        seen[states[state]] += 1
        if number % 20 == 0:
            before_again, before = before, folder.with_name("again")
            shutil.rmtree(before, ignore_errors=True)
            folder.rename(before)
            assert not end(start(), 120)
            assert look(folder) == new, "not usable afterwards"
            before = before_again
    print(json.dumps({"killed": killed, "seen": seen}))
""")


def kill(home: Path, command: Sequence[str]) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", KILL_AT_EVERY_MOMENT, home, str(KILLS), *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    report: dict[str, Any] = json.loads(ran.stdout)
    print(f"{' '.join(command)}: {report['killed']} of {KILLS} killed; {report['seen']}")
    assert report["killed"] and report["seen"]["old"]
    return report


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["file", "registry"])
@pytest.mark.parametrize("command", ["install", "update"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_tool(
    wasmrt: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, command: str
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(home)
    path = tmp_path / "parrot.wasm"
    with serve_registry(home) as registry:
        chosen = str(path) if source == "file" else registry.url()

        def publish(component: bytes, sidecar: bytes) -> None:
            path.write_bytes(component)
            path.with_name("parrot.capabilities.json").write_bytes(sidecar)
            registry.publish(config_of(sidecar), (component, WASM))

        publish(other := (BUNDLED / "time.wasm").read_bytes(), WIDER)
        wasmrt("install", chosen, "--yes")  # so that the code of the new version is compiled
        wasmrt("remove", "parrot", "--yes")
        publish(COMPONENT, REQUEST)
        wasmrt("install", chosen, "--yes", "--lock")
        publish(other, WIDER)
        kill(home, ["update", "--yes"] if command == "update" else ["install", chosen, "--yes", "--lock"])


@pytest.mark.timeout(1800)
def test_a_kill_at_any_moment_of_an_import_leaves_all_old_or_all_new_tools(
    wasmrt: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    sources = [
        (tmp_path / f"{name}.wasm", of) for name, of in (("parrot", "time"), ("quail", "echo"), ("rook", "json"))
    ]
    for path, of in sources:
        path.write_bytes((BUNDLED / f"{of}.wasm").read_bytes())
        path.with_name(f"{path.stem}.capabilities.json").write_bytes(WIDER)
        wasmrt("install", path, "--yes")
    wasmrt("export", tmp_path / "tools.zip")
    for path, _ in sources:
        wasmrt("remove", path.stem, "--yes")
    sources[0][0].write_bytes(COMPONENT)
    wasmrt("install", sources[0][0], "--yes", "--lock")
    kill(home, ["import", str(tmp_path / "tools.zip"), "--yes"])
