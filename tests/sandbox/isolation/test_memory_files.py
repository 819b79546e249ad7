"""Memory files that are sealed; a page that somebody holds, as a pipe does here, keeps the kernel from sealing one."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

import pytest

from tests.sandbox.isolation.conftest import needs_seccomp
from wasmrt.core.errors import InternalError
from wasmrt.sandbox.isolation.pool import memory
from wasmrt.sandbox.isolation.pool.memory import refusals

pytestmark = needs_seccomp

CODE = b"code" * 5_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


class HeldFile:
    """Fills files, and has a pipe hold a page of the first ones."""

    def __init__(self, pipe: tuple[int, int], held: int) -> None:
        self.filled = 0
        self._pipe = pipe
        self._held = held

    def __call__(self, descriptor: int) -> None:
        self.filled += 1
        os.write(descriptor, CODE)
        if self.filled <= self._held:
            assert os.splice(descriptor, self._pipe[1], 4096, offset_src=0)


def test_where_a_page_is_held_another_file_is_filled_and_sealed(pipe: tuple[int, int]) -> None:
    fill = HeldFile(pipe, held=2)
    descriptor = memory.sealed_after(fill)
    try:
        assert fill.filled >= 3
        assert os.pread(descriptor, len(CODE) + 1, 0) == CODE
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"other", 0)
        with pytest.raises(PermissionError):
            os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def test_a_file_that_can_never_be_sealed_is_given_up_and_none_stays_open(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_TRIES", 2)
    before = set(os.listdir("/proc/self/fd"))
    fill = HeldFile(pipe, held=9)
    with pytest.raises(InternalError, match=re.escape(os.strerror(errno.EBUSY))):
        memory.sealed_after(fill)
    assert fill.filled == 2
    assert set(os.listdir("/proc/self/fd")) <= before


def test_what_fails_for_another_reason_is_not_tried_again() -> None:
    tries = []

    def fill(descriptor: int) -> None:
        tries.append(descriptor)
        raise OSError(errno.ENOSPC, "no memory is left")

    with pytest.raises(InternalError, match="no memory is left"):
        memory.sealed_after(fill)
    assert len(tries) == 1


@pytest.mark.parametrize(("number", "is_scarce"), [(errno.EMFILE, True), (errno.ENOMEM, True), (errno.ENOENT, False)])
def test_what_the_kernel_refuses_is_told_with_its_reason_and_the_next_step(number: int, is_scarce: bool) -> None:
    with (
        pytest.raises(InternalError, match=f"no worker process can be started .{os.strerror(number)}") as caught,
        refusals(),
    ):
        raise OSError(number, os.strerror(number))
    assert ("close files" in str(caught.value.hint)) is is_scarce


def test_what_a_handler_of_a_signal_raises_is_none_of_the_kernels_refusals() -> None:
    with pytest.raises(TimeoutError, match="too late"), refusals():
        raise TimeoutError("too late")
