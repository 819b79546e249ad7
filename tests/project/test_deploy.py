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
from typing import Any

import pytest
import trustme
import yaml

from wasmrt.agent.config import read_config_file
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


# -- Kubernetes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    found = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
    assert {each["metadata"]["name"] for each in found} == {"wasmrt"}
    return {each["kind"]: each for each in found}


def pod_of(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    pod: dict[str, Any] = objects["Deployment"]["spec"]["template"]
    return pod


def test_the_objects_refer_to_existing_secrets_files_ports_and_labels(objects: dict[str, dict[str, Any]]) -> None:
    pod = pod_of(objects)
    containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    mounts = [each for container in containers for each in container["volumeMounts"]]
    assert {each["name"] for each in mounts} == volumes
    assert {each["subPath"] for each in mounts if "subPath" in each} == set(objects["ConfigMap"]["data"])
    main = pod["spec"]["containers"][0]
    keys = [each["valueFrom"]["secretKeyRef"]["key"] for each in main["env"] if "valueFrom" in each]
    assert sorted(keys) == sorted(objects["Secret"]["stringData"])
    ports = {each["name"]: each["containerPort"] for container in containers for each in container.get("ports", ())}
    bound = re.findall(r"bind :(\d+)", objects["ConfigMap"]["data"]["haproxy.cfg"])
    assert sorted(map(int, bound)) == sorted(ports.values())
    probes = [main[f"{each}Probe"]["httpGet"]["port"] for each in ("startup", "readiness", "liveness")]
    assert set(probes) == {ports["cluster"]}
    policy = objects["NetworkPolicy"]["spec"]
    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == ["mcp", "cluster"]
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == "mcp"
    labels = pod["metadata"]["labels"]
    selectors = (objects["Deployment"]["spec"]["selector"]["matchLabels"], objects["Service"]["spec"]["selector"])
    assert all(each == labels for each in (*selectors, policy["podSelector"]["matchLabels"]))


def test_the_pod_has_no_privileges_and_time_to_drain(objects: dict[str, dict[str, Any]]) -> None:
    pod = pod_of(objects)["spec"]
    confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert all(each["securityContext"] == confined for each in (*pod["initContainers"], *pod["containers"]))
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
    arguments = pod["containers"][0]["args"]
    drain = int(arguments[arguments.index("--drain") + 1])
    assert pod["terminationGracePeriodSeconds"] > drain + 5
    help_of = subprocess.run([sys.executable, "-m", "wasmrt", *arguments, "--help"], capture_output=True, check=False)
    assert help_of.returncode == 0
    servers = re.findall(r"server \S+ (\S+)", objects["ConfigMap"]["data"]["haproxy.cfg"])
    assert servers == [arguments[arguments.index(each) + 1] for each in ("--http", "--metrics")]


def test_the_configuration_of_the_pods_is_valid(objects: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(objects["ConfigMap"]["data"]["config.toml"])
    config = read_config_file(file)
    secrets = {config.database.password_secret, config.database.key_secret}
    assert secrets == set(objects["Secret"]["stringData"])
    variables = {each["name"] for each in pod_of(objects)["spec"]["containers"][0]["env"]}
    assert {f"WASMRT_SECRET_{name.upper()}" for name in secrets if name} < variables


@pytest.mark.parametrize("name", ["haproxy.cfg", "kubernetes.yaml"])
def test_haproxy_accepts_the_configurations(name: str, objects: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip("NO HAPROXY: install haproxy, or its configurations stay untested")
    text = (ROOT / "deploy/haproxy.cfg").read_text()
    if name == "kubernetes.yaml":
        text = objects["ConfigMap"]["data"]["haproxy.cfg"]
    certificate = trustme.CA().issue_cert("tools.example.com")
    (tmp_path / "tls.crt").write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    (tmp_path / "tls.key").write_bytes(certificate.private_key_pem.bytes())
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "wasmrt.pem")
    file = tmp_path / "haproxy.cfg"
    file.write_text(re.sub(r"/etc/haproxy/(tls/)?", f"{tmp_path}/", text))
    run(program, "-c", "-f", file)


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
