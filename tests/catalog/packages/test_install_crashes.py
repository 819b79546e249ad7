"""kill -9 during a package install leaves the old or the new catalog, component, tools and settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.catalog.packages.desk_package import write_package
from tests.tiers import kills

pytestmark = [pytest.mark.ci("kills"), pytest.mark.usefixtures("unmeasured")]
KILLS = kills()

# This script installs version 2 over version 1 in child processes, and kills each child a little later than the one
# before. It then inspects the state, and prints one JSON object with the states and the number of killed children.
KILL_AT_EVERY_MOMENT = textwrap.dedent("""
    import json, os, select, shutil, signal, sys, time
    from pathlib import Path
    from click.testing import CliRunner
    import wasmrt.cli.grant.plans as plans
    from wasmrt.cli import cli
    from wasmrt.core.errors import SecretNotFoundError
    from wasmrt.catalog import Catalog
    from wasmrt.core.places import find_places
    from wasmrt.egress.secrets import open_store

    home, old, new, kills = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    SETTINGS = {"desk_oauth_client_id": "an-id", "desk_oauth_client_secret": "its-secret"}
    plans.is_interactive = lambda: True

    def started(folder, package, answers):
        child = os.fork()
        if child == 0:
            os.environ["WASMRT_HOME"] = str(folder)
            done = CliRunner().invoke(cli, ["install", package, "--yes"], input="\\n".join(answers) + "\\n")
            os._exit(done.exit_code)
        return child

    def ended(child, seconds):
        pidfd = os.pidfd_open(child)
        if not select.select([pidfd], [], [], seconds)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])

    def settings(folder):
        kept, found = open_store(find_places().data), {}
        for name in SETTINGS:
            try:
                found[name] = kept.get("local", name).reveal()
            except SecretNotFoundError:
                pass
        return found

    def look(folder):
        os.environ["WASMRT_HOME"] = str(folder)
        catalog = Catalog(find_places().data)
        assert all(finding.problem is None for finding in catalog.verify()), "half a component"
        version = catalog.get("desk")
        kept = settings(folder)
        assert all(SETTINGS[name] == value for name, value in kept.items()), "half a setting"
        whole = [version.digest, version.package, version.sidecar, version.grant, version.description]
        return json.dumps([version.number, *whole]), len(kept)

    before, folder = home / "before", home / "now"
    assert not ended(started(before, old, ["", ""]), 120)
    took = 120.0
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before, folder)
        begun = time.monotonic()
        assert not ended(started(folder, new, SETTINGS.values()), 120)
        took = min(took, time.monotonic() - begun)
    states, killed, kept = {look(before)[0]: "old", look(folder)[0]: "new"}, 0, set()
    assert len(states) == 2 and look(folder)[1] == 2
    seen = []
    for number in range(kills):
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        part = (number + 1) / kills
        moment = 1.1 * part if number % 2 else 0.6 + 0.5 * part  # what is written is written at the end
        killed += ended(started(folder, new, SETTINGS.values()), took * moment)
        state, count = look(folder)
        assert state in states, "neither the old nor the new: " + state
        assert states[state] == "new" or count == 0, "settings of a package that is not there"
        seen.append(states[state])
        kept.add(count)
        if number % 10 == 0:
            still = [value for name, value in SETTINGS.items() if name not in settings(folder)]  # a kill lies between
            assert not ended(started(folder, new, still), 120), "not to be installed afterwards"
            assert states[look(folder)[0]] == "new" and look(folder)[1] == 2
    print(json.dumps({"seen": seen, "killed": killed, "settings": sorted(kept)}))
""")


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfds")
def test_a_kill_at_any_moment_of_an_install_leaves_the_old_or_the_new_package(tmp_path: Path, desk_wasm: bytes) -> None:
    old = write_package(tmp_path / "old", desk_wasm)
    changes = {'version = "1.2.0"': 'version = "2.0.0"', '"Delete tickets for good."': '"Purge."', "2048": "1024"}
    new = write_package(tmp_path / "new", desk_wasm + b"\0\x03\x02ab", edits=changes)
    ran = subprocess.run(
        [sys.executable, "-c", KILL_AT_EVERY_MOMENT, tmp_path, old, new, str(KILLS)],
        env={**os.environ, "WASMRT_SECRETS_BACKEND": "file"}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr[-2000:]
    report = json.loads(ran.stdout)
    left = {state: report["seen"].count(state) for state in ("old", "new")}
    print(f"{report['killed']} of {KILLS} killed; {left} packages left; numbers of settings: {report['settings']}")
    assert len(report["seen"]) == KILLS
    assert left["old"] > 0
