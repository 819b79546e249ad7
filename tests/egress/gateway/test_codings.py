"""Brotli and zstd: requested if their libraries are installed, decoded within the limit, and refused if invalid."""

from __future__ import annotations

import gzip
import importlib
import random
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from wasmrt.testing import http_response

from tests.egress.gateway.world import MakeWorld
from wasmrt.core.limits import MIB
from wasmrt.egress.gateway import HttpFailure
from wasmrt.sandbox.component.worlds import FailureKind

brotli: Any = pytest.importorskip("brotli")
zstd: Any = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
TEXT = b"some text that repeats " * 5000 + random.Random(7).randbytes(50_000)
ENCODE: dict[str, Callable[[bytes], bytes]] = {"br": brotli.compress, "zstd": zstd.compress, "gzip": gzip.compress}


def answer(world: MakeWorld, coding: str, body: bytes, **limits: int) -> bytes:
    made = world(lambda r, c: http_response(body, headers=(("Content-Encoding", coding),)))
    return bytes(made.get(call=made.call(**limits)).body)


def refusal(world: MakeWorld, coding: str, body: bytes, **limits: int) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        answer(world, coding, body, **limits)
    return caught.value


@pytest.mark.parametrize("coding", ENCODE)
def test_a_body_is_decoded(world: MakeWorld, coding: str) -> None:
    for text in (TEXT, b"", b"x"):
        assert answer(world, coding, ENCODE[coding](text)) == text


def test_several_zstd_frames_are_one_body(world: MakeWorld) -> None:
    assert answer(world, "zstd", zstd.compress(TEXT) + zstd.compress(b"end")) == TEXT + b"end"


@pytest.mark.ci("slow")
@pytest.mark.parametrize("coding", ENCODE)
def test_a_bomb_stops_at_the_limit(world: MakeWorld, coding: str) -> None:
    bomb = ENCODE[coding](bytes(100 * MIB))
    made = world(lambda r, c: http_response(bomb, headers=(("Content-Encoding", coding),)))
    call = made.call(max_response_bytes=2 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(HttpFailure) as caught:
            made.get(call=call)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind is FailureKind.OUTPUT_TOO_LARGE
    assert peak < 16 * MIB


@pytest.mark.parametrize("claimed", ENCODE)
@pytest.mark.parametrize("actual", [*ENCODE, "plain"])
def test_a_false_content_encoding_is_a_typed_error(world: MakeWorld, claimed: str, actual: str) -> None:
    if claimed != actual:
        body = TEXT if actual == "plain" else ENCODE[actual](TEXT)
        assert refusal(world, claimed, body).code == "content-coding"


@pytest.mark.parametrize("coding", ENCODE)
def test_damaged_bodies_are_typed_errors(world: MakeWorld, coding: str) -> None:
    whole = ENCODE[coding](TEXT)
    for body in (whole[:-1], whole[: len(whole) // 2], whole + b"more", b"\xff" * 100):
        assert refusal(world, coding, body).code == "content-coding"


def test_a_zstd_window_over_8_mib_is_refused(world: MakeWorld) -> None:
    parameter = zstd.CompressionParameter
    options = {parameter.window_log: 24, parameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=options)
    body = packer.compress(random.Random(7).randbytes(20_000)) + packer.flush()
    assert refusal(world, "zstd", body).code == "content-coding"


def test_many_empty_zstd_frames_are_refused(world: MakeWorld) -> None:
    assert refusal(world, "zstd", zstd.compress(b"") * 5000).code == "content-coding"


def test_only_installed_codings_are_requested(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(lambda r, c: http_response(b"text"))
    made.get()
    assert made.server.requests[0].header("Accept-Encoding") == "gzip, br, zstd"
    name = "wasmrt.egress.gateway._codings"
    known = sys.modules[name]
    monkeypatch.setitem(sys.modules, "brotli", None)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    assert importlib.import_module(name).ACCEPT_ENCODING == "gzip"
    monkeypatch.setitem(sys.modules, name, known)
