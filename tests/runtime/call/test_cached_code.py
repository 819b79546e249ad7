"""Compiled code of one component in the place of another's is never run, in any kind of isolation."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from wasmrt.testing.attacks import Body, tool

from wasmrt import Isolation, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm


def answering(text: bytes) -> bytes:
    body = Body(text=text, execute=f"(call $say (i32.const 1024) (i32.const {len(text)}))")
    return wat2wasm(tool(body))


GOOD, EVIL = answering(b'"good"'), answering(b'"evil"')


def answers(home: Path, isolation: Isolation) -> list[object]:
    """Prepare and call both components in a new runtime."""
    with WasmToolRuntime(WasmRuntimeConfig(isolation=isolation, cache_dir=home / "code")) as runtime:
        return [runtime.prepare(name, data).execute({}).result for name, data in (("good", GOOD), ("evil", EVIL))]


def artifacts(home: Path) -> list[Path]:
    return sorted((home / "code").rglob("*.cwasm"))


def exchange(home: Path) -> None:
    one, other = artifacts(home)
    one.rename(home / "kept")
    other.rename(one)
    (home / "kept").rename(other)


def copy(home: Path) -> None:
    one, other = artifacts(home)
    shutil.copy(one, other)


def link(home: Path) -> None:
    one, other = artifacts(home)
    other.unlink()
    other.symlink_to(one)


def hard_link(home: Path) -> None:
    one, other = artifacts(home)
    other.unlink()
    other.hardlink_to(one)


def join(home: Path) -> None:
    """Put the seal of one file in front of the code of the other."""
    one, other = artifacts(home)
    other.write_bytes(other.read_bytes()[:32] + one.read_bytes()[32:])


def truncate(home: Path) -> None:
    for path in artifacts(home):
        path.write_bytes(path.read_bytes()[:-4096])


@pytest.mark.parametrize("poison", [exchange, copy, link, hard_link, join, truncate])
@pytest.mark.parametrize("isolation", [Isolation.PROCESS, Isolation.IN_PROCESS])
def test_poisoned_code_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poison: Callable[[Path], None], isolation: Isolation
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    assert answers(tmp_path, isolation) == ["good", "evil"]
    assert len(artifacts(tmp_path)) == 2
    poison(tmp_path)
    assert answers(tmp_path, isolation) == ["good", "evil"]
    assert answers(tmp_path, isolation) == ["good", "evil"], "also with what the last runtime stored"
