"""Tests of the confinement of compilers and build scripts of untrusted projects."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import wasmrt
from wasmrt.authoring.project import Project, Step, build, create_project, find_toolchain, load_template
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.sandbox.isolation.confine import layers

pytestmark = pytest.mark.usefixtures("unmeasured")
STANDING = {layer.name for layer in layers() if layer.standing}
confining = pytest.mark.skipif(
    not {"seccomp", "landlock"} <= STANDING, reason="this machine cannot confine programs: nothing to prove"
)
DEEDS = ("read", "list", "outside", "connect", "send", "variable", "host")
SCRIPT = """
import json, os, socket, sys
home, outside, port, said = sys.argv[1:]
def attempt(deed):
    try:
        deed()
    except (OSError, KeyError):
        return "refused"
    return "done"
def connect():
    socket.create_connection(("127.0.0.1", int(port)), 5).close()
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way: way.sendto(b"x", ("127.0.0.1", int(port)))
deeds = {
    "read": lambda: open(home + "/token").read(),
    "list": lambda: os.listdir(home),
    "outside": lambda: open(outside, "w").close(),
    "connect": connect,
    "send": send,
    "variable": lambda: os.environ["A_TOKEN_OF_THE_USERS"],
    "host": lambda: os.listdir(f"/proc/{os.getppid()}/fd"),
}
open(said, "w").write(json.dumps({name: attempt(deed) for name, deed in deeds.items()}))
"""
BUILD_RS = """
use std::{env, fs, net};
fn said<T, E>(attempt: Result<T, E>) -> &'static str { if attempt.is_ok() { "done" } else { "refused" } }
fn main() {
    let (home, outside, port) = (HOME, OUTSIDE, PORT);
    let host = format!("/proc/{}/fd", HOST);
    let deeds = [
        ("read", said(fs::read(format!("{home}/token")))),
        ("list", said(fs::read_dir(home))),
        ("outside", said(fs::write(outside, ""))),
        ("connect", said(net::TcpStream::connect(("127.0.0.1", port)))),
        ("send", said(net::UdpSocket::bind("127.0.0.1:0").and_then(|way| way.send_to(b"x", ("127.0.0.1", port))))),
        ("variable", said(env::var("A_TOKEN_OF_THE_USERS"))),
        ("host", said(fs::read_dir(host))),
    ];
    let all: Vec<String> = deeds.iter().map(|(name, end)| format!("\\"{name}\\": \\"{end}\\"")).collect();
    fs::write("said.json", format!("{{{}}}", all.join(", "))).unwrap();
    println!("cargo:rerun-if-env-changed=ALWAYS_{}", env::var("OUT_DIR").unwrap().len());
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of the user with a token, next to the project."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "token").write_text("anything")
    return folder


@pytest.fixture(autouse=True)
def _variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN_OF_THE_USERS", "anything")


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def nobody(_question: str) -> bool:
    return False


def build_with_script(
    tmp_path: Path, home: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, str], dict[str, str], str]:
    """Return the actions of a project's script while fetching and building, and the message to the user."""
    arguments = (str(home), str(tmp_path / "outside"), str(port))
    steps = [
        Step(label, ("python", "-c", SCRIPT, *arguments, said))
        for label, said in (("fetching", "fetched.json"), ("building", "said.json"))
    ]
    copying = Step("copying", ("python", "-c", "import shutil; shutil.copy('tool.c', 'build/_tool.wasm')"))
    template = replace(
        load_template("c"), packages=(), fetch=(steps[0],), steps=(steps[1], copying), component="build/_tool.wasm"
    )
    monkeypatch.setattr("wasmrt.authoring.project._build.load_template", lambda _language: template)
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(tmp_path / "toolchains"))
    project = create_project("weather", "c", tmp_path)
    shutil.copy(Path(wasmrt.__file__).parent / "catalog/shipped" / "echo.wasm", project.folder / "tool.c")
    told = build(project, confirm=nobody).confinement
    fetched, said = (json.loads((project.folder / name).read_text()) for name in ("fetched.json", "said.json"))
    return fetched, said, told


@confining
def test_a_build_script_reaches_the_project_and_nothing_else(
    tmp_path: Path, home: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, said, told = build_with_script(tmp_path, home, port, monkeypatch)
    assert said == dict.fromkeys(DEEDS, "refused")
    assert fetched == dict.fromkeys(DEEDS, "refused") | {"connect": "done", "send": "done"}
    assert told == "confined to the project, its cache and the toolchain; the network only while fetching"


def test_unconfined_build_is_reported_as_such(
    tmp_path: Path, home: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also proves that a script can perform each action without confinement."""
    monkeypatch.setattr("wasmrt.authoring.project._confined.layers", tuple)
    fetched, said, told = build_with_script(tmp_path, home, port, monkeypatch)
    assert said == fetched == dict.fromkeys(DEEDS, "done")
    assert told.startswith("not confined (missing: landlock, seccomp)")


@confining
@pytest.mark.ci("toolchain")
def test_a_hostile_build_script_of_rust_is_refused(tmp_path: Path, home: Path, port: int) -> None:
    try:
        find_toolchain(load_template("rust"), confirm=nobody)
    except MissingToolchainError as missing:
        pytest.skip(f"rust: {missing.message}: {missing.hint}")
    project = create_project("weather", "rust", tmp_path)
    script = BUILD_RS
    for name, value in (("HOME", home), ("OUTSIDE", tmp_path / "outside")):
        script = script.replace(f"{name},", f'"{value}",').replace(f"{name})", f'"{value}")')
    script = script.replace("PORT);", f"{port}u16);").replace("HOST)", f"{os.getpid()})")
    (project.folder / "build.rs").write_text(script)
    try:
        build(project, confirm=nobody)
    except BuildError as error:
        if "network" in error.output or "offline" in error.output or "download" in error.output:
            pytest.skip("the crates of the template are not here, and there is no registry")
        raise AssertionError(error.output) from error
    assert json.loads((project.folder / "said.json").read_text()) == dict.fromkeys(DEEDS, "refused")
    assert not (tmp_path / "outside").exists()


@confining
def test_only_named_toolchain_folders_are_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like Rust, whose tokens are next to its programs."""
    own = tmp_path / "own-home"
    (own / "bin").mkdir(parents=True)
    (own / "fetched").mkdir()
    (own / "credentials.toml").write_text("token")
    program = own / "bin" / "compiler"
    program.write_text(
        '#!/bin/sh\ncat "$OWN_HOME/credentials.toml" > leaked 2>&1\necho x > "$OWN_HOME/fetched/$1"\n'
        "cp tool.c build/_tool.wasm\n"
    )
    program.chmod(0o755)
    template = replace(
        load_template("c"), packages=(), component="build/_tool.wasm", homes={"OWN_HOME": str(own)},
        toolchain=("{{own_home}}/bin",), fetched=("{{own_home}}/fetched",),
        fetch=(Step("fetching", (str(program), "by-fetching")),),
        steps=(Step("building", (str(program), "by-building")),),
    )  # fmt: skip
    monkeypatch.setattr("wasmrt.authoring.project._build.load_template", lambda _language: template)
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(tmp_path / "toolchains"))
    project: Project = create_project("weather", "c", tmp_path)
    shutil.copy(Path(wasmrt.__file__).parent / "catalog/shipped" / "echo.wasm", project.folder / "tool.c")
    build(project, confirm=nobody)
    assert "denied" in (project.folder / "leaked").read_text()
    assert os.listdir(own / "fetched") == ["by-fetching"]
