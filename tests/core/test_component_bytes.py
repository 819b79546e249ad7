"""A component's digest is always computed from its bytes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog.find import find_bundled
from wasmrt.core import component_bytes
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import CoreModuleError


def test_the_digest_is_computed_and_cannot_be_passed_in() -> None:
    component = ComponentBytes(b"abc")
    assert component.digest == blake3(b"abc").hexdigest()
    with pytest.raises(TypeError):
        ComponentBytes(b"abc", "0" * 64)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        component.digest = "0" * 64  # type: ignore[misc]
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(component, digest="0" * 64)


def test_changing_the_original_buffer_does_not_change_the_component() -> None:
    data = bytearray(b"abc")
    component = ComponentBytes(data)  # type: ignore[arg-type]
    data[0] = 0
    assert component == ComponentBytes(b"abc")


def test_the_repr_does_not_contain_the_bytes() -> None:
    assert "secret" not in repr(ComponentBytes(b"secret"))


def test_a_runtime_uses_the_digest_without_hashing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = find_bundled("echo").component

    def hashed_again(_: Any) -> None:
        raise AssertionError("hashed again")

    with WasmToolRuntime(WasmRuntimeConfig(cache_dir=tmp_path)) as runtime:
        monkeypatch.setattr(component_bytes, "blake3", hashed_again)
        tool = runtime.prepare("echo", component)
        assert tool.execute({"message": "hi"}).result == "hi"
        assert tool.digest == component.digest


def test_a_component_cannot_be_created_with_the_digest_of_other_bytes() -> None:
    with WasmToolRuntime(WasmRuntimeConfig.for_testing()) as runtime, pytest.raises(CoreModuleError):
        runtime.prepare("core", ComponentBytes(b"\0asm\x01\0\0\0"))
