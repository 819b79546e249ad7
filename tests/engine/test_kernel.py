"""Kernels: core modules of our own that go through bytes."""

from __future__ import annotations

import threading

import pytest

from wasmrt.errors import InternalError, InvalidComponentError
from wasmrt.guest.engine import make_kernel

SUM = """(module
  (memory (export "memory") 1 1)
  (func (export "sum") (param $at i32) (param $size i32) (result i32)
    (local $sum i32)
    (block $done
      (loop $bytes
        (br_if $done (i32.eqz (local.get $size)))
        (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $size (i32.sub (local.get $size) (i32.const 1)))
        (br $bytes)))
    (local.get $sum))
  (func (export "forty-two") (result i32) (i32.const 42)))"""


def test_a_kernel_reads_what_was_written() -> None:
    kernel = make_kernel(SUM)
    kernel.write(100, bytes(range(50)))
    kernel.write(150, memoryview(b"\x01\x02"))
    assert kernel.call("sum", 100, 52) == sum(range(50)) + 3
    assert [kernel.call("sum", at, 1) for at in (149, 150, 151)] == [0x31, 0x01, 0x02]
    assert kernel.call("forty-two") == 42


def test_each_kernel_has_a_memory_of_its_own() -> None:
    one, other = make_kernel(SUM), make_kernel(SUM)
    one.write(0, b"\xff")
    assert (one.call("sum", 0, 1), other.call("sum", 0, 1)) == (255, 0)


@pytest.mark.parametrize("at", [65536, 65530, -4, 1 << 40])
def test_what_does_not_fit_into_the_memory_is_refused(at: int) -> None:
    with pytest.raises(ValueError):
        make_kernel(SUM).write(at, b"too long")


def test_a_trap_is_an_error_and_the_kernel_goes_on() -> None:
    kernel = make_kernel(SUM)
    with pytest.raises(InternalError):
        kernel.call("sum", 65536, 1)
    assert kernel.call("forty-two") == 42


def test_an_unknown_function_is_an_error() -> None:
    with pytest.raises(InternalError):
        make_kernel(SUM).call("product", 1, 2)


@pytest.mark.parametrize(
    "text",
    ['(module (import "a" "b" (func)) (memory (export "memory") 1 1))', "(module)", "(component)"],
    ids=["imports", "no memory", "component"],
)
def test_a_module_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(InternalError):
        make_kernel(text)


def test_what_is_no_webassembly_text_is_refused() -> None:
    with pytest.raises(InvalidComponentError):
        make_kernel("(module")


def test_kernels_run_at_once_on_several_threads() -> None:
    wrong: list[int] = []

    def run(number: int) -> None:
        kernel = make_kernel(SUM)
        kernel.write(0, bytes([number]) * 60000)
        wrong.extend(total for _ in range(20) if (total := kernel.call("sum", 0, 60000)) != number * 60000)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
