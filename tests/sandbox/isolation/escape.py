"""A zygote for tests whose run workers execute machine code, as after an engine bug.

The code is mapped before the worker is sealed, since no sealed one can map any. Nothing of this is in the wheel.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
from collections.abc import Iterator
from typing import Any, NoReturn

from wasmrt.sandbox.guest.component import LinkedComponent
from wasmrt.sandbox.isolation.confine._syscalls import MACHINE, list_numbers
from wasmrt.sandbox.isolation.worker import zygote
from wasmrt.sandbox.isolation.worker.children import TemplateSeal

SUPPORTED = MACHINE == "x86_64"
_MASK = 0x55
"""Search terms are stored with these bits flipped, so that the search does not find itself."""
_SYSCALL = bytes.fromhex(
    "4889f8"  # mov rax, rdi
    "4889f7"  # mov rdi, rsi
    "4889d6"  # mov rsi, rdx
    "4889ca"  # mov rdx, rcx
    "4d89c2"  # mov r10, r8
    "4d89c8"  # mov r8, r9
    "4c8b4c2408"  # mov r9, [rsp+8]
    "0f05"  # syscall
    "c3"  # ret
)
_SYSCALL_OF_32_BITS = bytes.fromhex(
    "89f8"  # mov eax, edi
    "cd80"  # int 0x80
    "c3"  # ret
)
# (start, end, needle, size): the number of occurrences of the needle, each byte xor 0x55
_SCAN = bytes.fromhex(
    "31c0"  # xor eax, eax
    "4c8d040f"  # next: lea r8, [rdi+rcx]
    "4939f0"  # cmp r8, rsi
    "7721"  # ja end
    "4531c9"  # xor r9d, r9d
    "468a140f"  # same: mov r10b, [rdi+r9]
    "4180f255"  # xor r10b, 0x55
    "463a140a"  # cmp r10b, [rdx+r9]
    "750b"  # jne other
    "49ffc1"  # inc r9
    "4939c9"  # cmp r9, rcx
    "72ea"  # jb same
    "48ffc0"  # inc rax
    "48ffc7"  # other: inc rdi
    "ebd6"  # jmp next
    "c3"  # end: ret
)
_LONG = ctypes.c_long


class _Native:
    """The machine code, and the facts that it needs about this process."""

    def __init__(self) -> None:
        rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=rights)
        for place, code in ((0, _SYSCALL), (128, _SYSCALL_OF_32_BITS), (256, _SCAN)):
            self._page[place : place + len(code)] = code
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._syscall = ctypes.CFUNCTYPE(_LONG, *[_LONG] * 7)(at)
        self._syscall32 = ctypes.CFUNCTYPE(_LONG, _LONG)(at + 128)
        self._scan = ctypes.CFUNCTYPE(_LONG, _LONG, _LONG, ctypes.c_char_p, _LONG)(at + 256)
        self._kept: list[Any] = []
        self._ranges: list[tuple[int, int]] = []

    def look(self, maps: int) -> None:
        """Record mapped and written pages, from a file opened before: a sealed process cannot open files."""
        self._ranges, text = [], b""
        while piece := os.pread(maps, 65536, len(text)):
            text += piece
        for line in text.decode().splitlines():
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw") and end - start <= 2**26 and "[v" not in line:
                self._ranges.append((start, end))

    def call(self, name: str, *arguments: int | str) -> int:
        """Make a system call; a text is passed as a pointer to it."""
        if name == "32 bits":
            return int(self._syscall32(int(arguments[0])))
        number = int(arguments[0]) if name == "by number" else list_numbers()[name]
        values = [self._pointer(value) if isinstance(value, str) else value for value in arguments]
        values = values[1:] if name == "by number" else values
        return int(self._syscall(number, *values, *[0] * (6 - len(values))))

    def count(self, masked: list[int]) -> int:
        """Count occurrences of masked terms in all memory."""
        needle = bytes(masked)
        top = self.call("brk", 0)
        found = 0
        for start, end in self._ranges:
            heap = end <= top < end + 2**28  # it may have grown
            found += sum(int(self._scan(*run, needle, len(needle))) for run in self._runs(start, top if heap else end))
        return found

    def _runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The readable pieces between two addresses, as long as possible."""
        first = start
        for page in range(start, end, mmap.PAGESIZE):
            # The kernel reads the new mask before it looks at the operation, which is invalid here.
            if self.call("rt_sigprocmask", 99, page, 0, 8) == -errno.EFAULT:
                if first < page:
                    yield first, page
                first = page + mmap.PAGESIZE
        if first < end:
            yield first, end

    def _pointer(self, text: str) -> int:
        buffer = ctypes.create_string_buffer(text.encode())
        self._kept.append(buffer)
        return ctypes.addressof(buffer)


def masked(text: str) -> list[int]:
    """Store a search term."""
    return [byte ^ _MASK for byte in text.encode()]


def main() -> NoReturn:
    """Run a zygote whose workers execute the params under `native` instead of the guest."""
    native = _Native()
    run, seal, measure = LinkedComponent.run, TemplateSeal.__init__, TemplateSeal.measure
    maps: list[int] = []

    def escaped(self: LinkedComponent, call: Any, tool: str, params: str, context: str | None, *, user: str) -> str:
        wanted = json.loads(params).get("native")
        if wanted is None:
            return run(self, call, tool, params, context, user=user)
        found = native.call(*wanted["call"]) if "call" in wanted else native.count(wanted["search"])
        return json.dumps({"found": found})

    def sealed(self: TemplateSeal, limits: Any, *, keep: tuple[int, ...], required: bool) -> None:
        maps.append(os.open("/proc/self/maps", os.O_RDONLY))
        seal(self, limits, keep=(*keep, maps[0]), required=required)

    def measured(self: TemplateSeal, *keep: int) -> None:
        native.look(maps[0])  # of the template, with whose memory its workers begin
        measure(self, *keep)

    LinkedComponent.run = escaped  # type: ignore[method-assign]
    TemplateSeal.__init__ = sealed  # type: ignore[method-assign]
    TemplateSeal.measure = measured  # type: ignore[method-assign]
    zygote.main()
