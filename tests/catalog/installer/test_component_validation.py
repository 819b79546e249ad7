"""Bytes are validated before they reach the compiler; every error names the problem and a fix."""

from __future__ import annotations

import random

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st
from made_components import component

from tests.tiers import examples
from wasmrt import WasmToolRuntime
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import (
    ComponentTooLargeError,
    ConfigurationError,
    CoreModuleError,
    GuestError,
    InvalidComponentError,
    NotWasmError,
    UnknownImportError,
    UnknownWorldError,
    WasmrtError,
)

PREAMBLE = b"\0asm\x0d\0\x01\0"
GOOD = component("near:agent/host@0.3.0", "wasi:io/streams@0.2.6")

HANDLER = """(component
  (import "wasi:http/types@0.2.0" (instance $types
    (export "incoming-request" (type (sub resource))) (export "response-outparam" (type (sub resource)))))
  (alias export $types "incoming-request" (type $r)) (alias export $types "response-outparam" (type $o))
  (core module $m (func (export "handle") (param i32 i32))) (core instance $i (instantiate $m))
  (func $h (param "request" (own $r)) (param "response-out" (own $o)) (canon lift (core func $i "handle")))
  (component $c
    (import "r" (type $r (sub resource))) (import "o" (type $o (sub resource)))
    (import "h" (func $h (param "request" (own $r)) (param "response-out" (own $o))))
    (export "handle" (func $h)))
  (instance $x (instantiate $c (with "r" (type $r)) (with "o" (type $o)) (with "h" (func $h))))
  (export "wasi:http/incoming-handler@0.2.0" (instance $x)))"""


def refusal(data: bytes, **settings: int) -> WasmrtError:
    with pytest.raises(WasmrtError) as caught:
        WasmValidator(**settings).validate(data).raise_first()
    assert caught.value.message.isprintable()
    return caught.value


def test_a_valid_component_is_accepted_and_its_names_are_read() -> None:
    result = WasmValidator().validate(GOOD)
    assert result.is_valid
    assert result.errors == result.warnings == ()
    assert result.imports == ("near:agent/host@0.3.0", "wasi:io/streams@0.2.6")
    assert result.exports == ("run",)
    assert (result.size_bytes, result.world) == (len(GOOD), "plain functions")


@pytest.mark.parametrize(
    ("data", "kind", "word"),
    [
        (b"", NotWasmError, "build or download"),
        (b"hello, this is a text", NotWasmError, "00 61 73 6d"),
        (b"(component)", NotWasmError, "wasm-tools parse"),
        (b"\x1f\x8b\x08\x00", NotWasmError, "unpack"),
        (b"<!doctype html>", NotWasmError, "web page"),
        (b"\0asm", InvalidComponentError, "download"),
        (wasmtime.wat2wasm("(module)"), CoreModuleError, "wasm32-wasip2"),
        (wasmtime.wat2wasm('(module (import "extism:host/env" "error_set" (func)))'), CoreModuleError, "Extism"),
        (b"\0asm\x0c\0\x01\0", InvalidComponentError, "current toolchain"),
        (GOOD[:-1], InvalidComponentError, "download or build"),
        (GOOD[: len(GOOD) // 2], InvalidComponentError, "download or build"),
        (PREAMBLE, UnknownWorldError, "wasmrt:tool/provider"),
    ],
)
def test_bytes_that_are_not_a_component_are_refused_with_a_hint(
    data: bytes, kind: type[WasmrtError], word: str
) -> None:
    error = refusal(bytes(data))
    assert type(error) is kind
    assert word in (error.hint or "")


@pytest.mark.parametrize("version", ["", "@0.2.0", "@0.3.0", "@0.4.1"])
def test_every_known_agent_world_is_recognised(version: str) -> None:
    text = f"""(component
        (component $c (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f"))) (export "execute" (func $f)))
        (instance $t (instantiate $c)) (export "near:agent/tool{version}" (instance $t)))"""
    assert WasmValidator().validate(bytes(wasmtime.wat2wasm(text))).world == f"near:agent/tool{version}"


def test_a_later_agent_world_is_unknown_and_reported() -> None:
    text = """(component (instance $e) (export "near:agent/tool@0.9.0" (instance $e)))"""
    assert "near:agent/tool@0.9.0" in str(refusal(bytes(wasmtime.wat2wasm(text))))


def test_a_handler_of_http_requests_is_a_tool() -> None:
    data = bytes(wasmtime.wat2wasm(HANDLER))
    assert WasmValidator().validate(data).world == "wasi:http/incoming-handler@0.2.0"
    with WasmToolRuntime() as runtime, pytest.raises(GuestError, match="set no response"):
        runtime.prepare("handler", data).execute({"path": "/"})


def test_a_handler_of_a_later_version_is_refused_by_its_export() -> None:
    data = bytes(wasmtime.wat2wasm(HANDLER.replace("handler@0.2.0", "handler@0.3.0")))
    with WasmToolRuntime() as runtime, pytest.raises(UnknownWorldError) as caught:
        runtime.prepare("handler", data)
    assert "wasi:http/incoming-handler@0.3.0" in str(caught.value)
    assert "functions with plain types" in (caught.value.hint or "")


def test_an_interface_of_any_other_package_is_left_to_the_engine() -> None:
    text = """(component (instance $e) (export "acme:weather/forecast@1.0.0" (instance $e)))"""
    assert WasmValidator().validate(bytes(wasmtime.wat2wasm(text))).world == "plain functions"


@pytest.mark.parametrize(
    "name", ["near:agent/host@0.5.0", "near:agent/channel-host", "wasi:io/streams@0.3.0", "wasi:nn/tensor@0.2.0", "env"]
)
def test_an_unsupported_import_is_reported(name: str) -> None:
    error = refusal(component(name, "wasi:cli/environment@0.2.0"))
    assert isinstance(error, UnknownImportError)
    assert name in str(error)
    assert "wasi:cli" not in str(error)


def test_both_size_limits_are_configurable() -> None:
    assert "is large" in WasmValidator(warn_bytes=10).validate(GOOD).warnings[0]
    assert isinstance(refusal(GOOD, max_bytes=len(GOOD) - 1), ComponentTooLargeError)
    assert WasmValidator(max_bytes=len(GOOD)).validate(GOOD).is_valid
    with pytest.raises(ConfigurationError):
        WasmValidator(max_bytes=0)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00" * 400_000,  # an unbounded number of sections
        b"\x0a\xff\xff\xff\xff\x0f" + b"\x00" * 100,  # a section of 4 GiB
        b"\x0a" + b"\xff" * 20,  # an unterminated number
        b"\x0a\x05\xff\xff\xff\xff\x0f",  # four billion imports
        b"\x0a\x80\x80\x40" + b"\x01" * (1 << 20),  # a megabyte of names
        b"\x4d\x00",  # a section of an unknown kind
    ],
)
def test_absurd_sections_are_refused(body: bytes) -> None:
    # A reader that trusts the numbers would loop four billion times.
    assert isinstance(refusal(PREAMBLE + body), InvalidComponentError)


def test_control_characters_in_names_never_reach_a_message() -> None:
    name = b"evil\x1b[2J\n"
    section = b"\x01\x00" + bytes([len(name)]) + name + b"\x05\x00"
    error = refusal(PREAMBLE + b"\x0a" + bytes([len(section)]) + section)
    assert "\x1b" not in str(error)


@settings(max_examples=examples(60))
@given(st.binary(max_size=200))
def test_random_bytes_after_a_valid_start_only_raise_typed_errors(tail: bytes) -> None:
    WasmValidator().validate(PREAMBLE + tail)


def test_flipped_bytes_only_raise_typed_errors() -> None:
    dice = random.Random(7)
    for _ in range(300):
        spoilt = bytearray(GOOD)
        spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
        WasmValidator().validate(bytes(spoilt))
