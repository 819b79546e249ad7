"""The files in deploy/: the systemd unit is valid and confined, and the container runs wasmrt without privileges."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wasmrt.sandbox.isolation.confine import _process

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/wasmrt.service"
PROGRAM = "/opt/wasmrt/bin/wasmrt"
systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


# -- the unit ----------------------------------------------------------------------------------------------------------


def analyze(folder: Path, text: str, *command: str) -> subprocess.CompletedProcess[str]:
    unit = folder / UNIT.name
    unit.write_text(text.replace(PROGRAM, f"{sysconfig.get_path('scripts')}/wasmrt"))
    return subprocess.run(["systemd-analyze", *command, str(unit)], capture_output=True, text=True, check=False)


@systemd
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    done = analyze(tmp_path, UNIT.read_text(), "verify", "--man=no")
    assert (done.returncode, done.stderr) == (0, "")
    misspelled = analyze(tmp_path, UNIT.read_text().replace("UMask=", "UMasc="), "verify", "--man=no")
    assert "UMasc" in misspelled.stderr


@systemd
def test_the_unit_limits_the_exposure_of_the_service(tmp_path: Path) -> None:
    limit = ("security", "--offline=true", "--threshold=40")
    assert analyze(tmp_path, UNIT.read_text(), *limit).returncode == 0
    assert analyze(tmp_path, re.sub("Protect.*", "", UNIT.read_text()), *limit).returncode != 0


def test_the_unit_allows_the_namespaces_that_confine_programs() -> None:
    (allowed,) = re.findall("^RestrictNamespaces=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert set(allowed.split()) == set(_process._NAMESPACES)


def test_the_units_command_is_valid() -> None:
    (command,) = re.findall(f"^ExecStart={PROGRAM} (.*)$", UNIT.read_text(), re.MULTILINE)
    words = [sys.executable, "-m", "wasmrt", *command.split(), "--help"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


# -- the container -----------------------------------------------------------------------------------------------------


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.strip()


@contextmanager
def container(storage: Path, image: str) -> Iterator[str]:
    name = buildah(storage, "from", "--pull-never", image)
    try:
        yield name
    finally:
        buildah(storage, "rm", name)


def buildah(storage: Path, *command: str | Path) -> str:
    folders = ("--root", storage / "root", "--runroot", storage / "run", "--storage-driver", "vfs")
    return run("buildah", *folders, *command, BUILDAH_ISOLATION="chroot")


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a Debian with its Python."""
    missing = [each for each in ("buildah", "debootstrap") if shutil.which(each) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"the container is not built: {', '.join(missing) or 'root'} is missing")
    folder = tmp_path_factory.mktemp("debian")
    run("debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", folder)
    return folder


@pytest.mark.ci("wheel")
@pytest.mark.timeout(1800)
def test_the_container_runs_tools_offline_without_root_and_build_tools(debian: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "deploy/Containerfile", tmp_path)
    wheels, storage = tmp_path / "dist", tmp_path / "storage"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
    (wheel,) = wheels.iterdir()
    run(
        sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--python-version", "3.11",
        "-d", wheels, f"{wheel}[serve]",
    )  # fmt: skip
    with container(storage, "scratch") as base:
        buildah(storage, "add", base, debian, "/")
        buildah(storage, "commit", "-q", base, "localhost/base")
    options = ("--build-arg", "BASE=localhost/base", "--build-arg", "PIP_NO_INDEX=1", "--pull-never")
    buildah(storage, "build", "-q", *options, "-t", "localhost/wasmrt", tmp_path)
    with container(storage, "localhost/wasmrt") as name:
        tools = "for each in cc make pip; do command -v $each; done"
        shell = f"id -u; {tools}; grep CapEff /proc/self/status; wasmrt run echo '{json.dumps({'message': 'hi'})}'"
        uid, effective, *answer = buildah(storage, "run", name, "--", "sh", "-c", shell).splitlines()
        assert (uid, effective.split()[1]) == ("10001", "0" * 16)
        assert "hi" in "".join(answer)
        assert "echo" in buildah(storage, "run", name, "--", "wasmrt", "serve", "--check")
