"""The available layers are reported, and a missing required layer is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt.cli import cli
from wasmrt.sandbox.isolation.confine import (
    COMPILE_WORKER,
    CORE,
    MCP_SERVER,
    OUTLET_LAYER,
    RUN_WORKER,
    SHELL,
    ConfineError,
    Layer,
    layers,
    prepare,
    probe,
)
from wasmrt.sandbox.isolation.confine import _macos as macos

linux = pytest.mark.skipif(sys.platform != "linux", reason="these layers are Linux's")


@linux
def test_every_layer_has_a_row_and_a_sentence() -> None:
    found = {layer.name: layer for layer in layers()}
    named = {"seccomp", "landlock", "no-new-privileges", "capabilities", "descriptors", "limits", "namespaces"}
    named.add(OUTLET_LAYER)
    assert set(found) == named
    assert all(layer.sentence for layer in found.values())
    assert [name for name, layer in found.items() if layer.optional] == ["namespaces", OUTLET_LAYER]
    assert set(CORE) <= set(found)


@linux
def test_doctor_shows_each_layer() -> None:
    rows = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout)
    states = {row["name"]: row["state"] for row in rows if row["name"].startswith("isolation: ")}
    assert list(states) == [
        "isolation: seccomp",
        "isolation: landlock",
        "isolation: no-new-privileges",
        "isolation: capabilities",
        "isolation: descriptors",
        "isolation: limits",
        "isolation: namespaces",
        "isolation: network-outlet",
    ]
    assert set(states.values()) <= {"ok", "warning"}
    assert states["isolation: namespaces"] == states["isolation: network-outlet"] == "ok"  # optional


def test_doctor_warns_about_a_missing_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = (Layer("landlock", False, "not in this kernel"), Layer("namespaces", False, "refused", True))
    monkeypatch.setattr("wasmrt.sandbox.isolation.confine.layers", lambda: missing)
    rows = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout)
    states = {row["name"]: (row["state"], row["found"]) for row in rows if row["name"].startswith("isolation: ")}
    assert states == {
        "isolation: landlock": ("warning", "not in this kernel"),
        "isolation: namespaces": ("ok", "refused"),
    }


@linux
def test_a_failed_trial_reports_a_missing_layer_with_its_reason(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def fails() -> None:
        raise OSError(38, "not in this kernel")

    monkeypatch.setattr(probe, "_TRIALS", {"landlock": (fails, str), "seccomp": (lambda: None, lambda: "it works")})
    probe.main()
    found = json.loads(capsys.readouterr().out)
    assert found == [["landlock", False, "[Errno 38] not in this kernel"], ["seccomp", True, "it works"]]


@linux
def test_a_crashed_trial_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any, **__: Any) -> Any:
        raise subprocess.CalledProcessError(-31, "probe")

    monkeypatch.setattr(subprocess, "run", breaks)
    assert layers() == (Layer("seccomp", False, "the test of the layers failed: CalledProcessError"),)


def test_missing_confinement_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SUPPORTED", False)
    (layer,) = layers()
    assert not layer.standing
    assert "cannot confine" in layer.sentence


@needs_seccomp
@pytest.mark.parametrize("confinement", [RUN_WORKER, COMPILE_WORKER], ids=lambda each: each.kind)
@pytest.mark.parametrize("lacking", ["seccomp", "landlock"])
def test_a_missing_required_layer_is_refused_before_sealing(
    monkeypatch: pytest.MonkeyPatch, lacking: str, confinement: Any
) -> None:
    if lacking == "seccomp":
        monkeypatch.setattr("wasmrt.sandbox.isolation.confine._seccomp.is_available", lambda: False)
    else:
        monkeypatch.setattr("wasmrt.sandbox.isolation.confine._landlock.read_abi", lambda: 0)
    with pytest.raises(ConfineError, match=lacking):
        prepare(confinement, required=["seccomp", "landlock"])


@needs_seccomp
def test_programs_need_landlock_and_workers_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.sandbox.isolation.confine._landlock.read_abi", lambda: 0)
    prepare(RUN_WORKER)
    with pytest.raises(ConfineError, match="landlock"):
        prepare(SHELL)


@needs_landlock
def test_ports_that_the_kernel_cannot_restrict_are_not_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.sandbox.isolation.confine._landlock.read_abi", lambda: 3)
    prepare(MCP_SERVER, network=True)
    with pytest.raises(ConfineError, match="ports"):
        prepare(MCP_SERVER, network=True, connect=[443])


def test_a_system_without_any_layer_seals_nothing_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.sandbox.isolation.confine._sealing.SUPPORTED", False)
    monkeypatch.setattr("wasmrt.sandbox.isolation.confine._prepare.SUPPORTED", False)
    for confinement in (RUN_WORKER, SHELL):
        with pytest.raises(ConfineError, match="seccomp"):
            prepare(confinement)
        prepare(confinement, required=())


def test_the_macos_profile_denies_by_default_and_lists_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macos, "ON_MACOS", True)
    text = macos.write_profile(["/read"], ["/write"], ["/run"], (443,))
    assert text is not None
    lines = text.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert '(allow file-write* (subpath "/write"))' in lines
    assert '(allow file-write* (subpath "/read"))' not in lines
    assert '(allow process-exec (subpath "/run"))' in lines
    assert '(allow network-outbound (remote tcp "*:443"))' in lines
    assert "(allow network-outbound)" not in lines
    assert "(allow network-outbound)" in (macos.write_profile([], [], [], None) or "").splitlines()
