"""Folders of plugins: manifests with small shell or Python programs, or the echo plugin built from source."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.programs.build import echo_plugin
from wasmrt.agent.builtin.plugins import Plugins, PluginTool, load_plugins
from wasmrt.sandbox.isolation.confine import layers

MANIFEST = """\
tool_name = "{name}"
version = "0.1.0"
description = "Echo back a text field"
requires_network = false
max_runtime_ms = 2000
max_stdout_bytes = 65536
max_stderr_bytes = 65536
{more}
[args]
type = "object"
required = ["text"]

[args.properties.text]
type = "string"
max_length = 1024
"""
ANSWER = """#!/usr/bin/python3
import json, os, sys
request = json.loads(sys.stdin.readline())
text = json.loads(request["args_json"])["text"]
def answer(data, **more):
    print(json.dumps({"protocol_version": 0, "request_id": request["request_id"], "ok": True,
                      "data_json": json.dumps(data)} | more), flush=True)
def attempt(work):
    try:
        return repr(work())
    except Exception as error:
        return type(error).__name__
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def confined() -> None:
    """Skip the test if programs cannot be confined here; provide a Python that confined programs can run."""
    if sys.platform != "linux" or not {"landlock", "seccomp"} <= {one.name for one in layers() if one.standing}:
        pytest.skip("this machine cannot confine programs: it has no Landlock or no seccomp")
    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("there is no /usr/bin/python3 for a plugin to run on")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugins").mkdir()
    return tmp_path / "plugins"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace/notes").mkdir(parents=True)
    (tmp_path / "workspace/notes/one.txt").write_text("a note\n")
    return tmp_path / "workspace"


@pytest.fixture
def write(folder: Path) -> Callable[..., None]:
    """Return a function that writes a plugin's manifest and program."""

    def put(name: str, script: str | None = None, *, manifest: str = "", program: Path | None = None) -> None:
        native = script is not None or (program is not None and program.suffix != ".wasm")
        more = ("native = true\n" if native else "") + manifest
        text = MANIFEST.format(name=name, more="")
        for line in more.splitlines():
            key = line.partition(" =")[0]
            text = "\n".join(old for old in text.splitlines() if not old.startswith(f"{key} =")) + "\n"
            text = text.replace("[args]\n", f"{line}\n[args]\n", 1)
        (folder / f"{name}.toml").write_text(text)
        place = folder / (name if native else f"{name}.wasm")
        if script is not None:
            place.write_text(script)
        elif program is not None:
            shutil.copyfile(program, place)
        if place.exists():
            place.chmod(0o755)

    return put


@pytest.fixture
def load(folder: Path) -> Iterator[Callable[..., Plugins]]:
    opened: list[Plugins] = []

    def now(**settings: Any) -> Plugins:
        opened.append(load_plugins(folder, **settings))
        return opened[-1]

    yield now
    for plugins in opened:
        plugins.close()


@pytest.fixture
def native(confined: None, write: Callable[..., None], load: Callable[..., Plugins]) -> Callable[..., PluginTool]:
    """Return a function that loads a native plugin whose program is a script."""

    def make(script: str, *, manifest: str = "", **settings: Any) -> PluginTool:
        write("plugin", script, manifest=manifest)
        return load(unsafe_native_plugins=True, **settings)["plugin"]

    return make


@pytest.fixture(params=["native", "wasi"])
def echo(
    request: pytest.FixtureRequest, write: Callable[..., None], load: Callable[..., Plugins], workspace: Path
) -> PluginTool:
    """Return the echo plugin, as a native program and as a WASI component."""
    if request.param == "native":
        request.getfixturevalue("confined")
    write("echo", program=echo_plugin("wasm32-wasip2" if request.param == "wasi" else ""))
    return load(workspace=workspace, unsafe_native_plugins=request.param == "native")["echo"]
