"""Chains of receipts to write, read and damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wasmrt.core.limits import MIN_SEGMENT_BYTES
from wasmrt.runtime.audit import Receipt, ReceiptWriter, read_keys
from wasmrt.runtime.audit.reading import read_receipts
from wasmrt.runtime.audit.verify import Verification, verify


def receipt(number: int = 1, user: str = "local", **parts: object) -> Receipt:
    """A receipt that differs from others."""
    known = Receipt(
        started_ms=number,
        ended_ms=number + 1,
        call_id=f"call-{number}",
        tool="tool",
        digest="0" * 64,
        user=user,
        chain=("tool",),
    )
    return known._replace(**parts)  # type: ignore[arg-type]


class Chain:
    """A folder of receipts and its key."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "receipts"
        self.key = home / "receipts.key"

    def writer(self, max_segment_bytes: int = MIN_SEGMENT_BYTES) -> ReceiptWriter:
        return ReceiptWriter(self.folder, self.key, max_segment_bytes=max_segment_bytes)

    def write(self, count: int, first: int = 1, **options: int) -> None:
        writer = self.writer(**options)
        for number in range(first, first + count):
            writer(receipt(number))
        writer.close()

    def part(self, number: int) -> Path:
        """The folder of one of the chains."""
        return self.folder / f"chains/{number:04d}" if number else self.folder

    def file(self, segment: int = 1, chain: int = 0) -> Path:
        return self.part(chain) / f"receipts-{segment:06d}.jsonl"

    def lines(self, segment: int = 1) -> list[bytes]:
        return self.file(segment).read_bytes().splitlines(keepends=True)

    def lines_of(self, chain: int) -> list[bytes]:
        return self.file(chain=chain).read_bytes().splitlines(keepends=True)

    def rewrite(self, lines: list[bytes], segment: int = 1) -> None:
        self.file(segment).write_bytes(b"".join(lines))

    def calls(self) -> list[object]:
        """The call IDs of all receipts, as readers see them."""
        return [record["call_id"] for record in read_receipts(self.folder)]

    def verified(self, **options: object) -> Verification:
        return verify(self.folder, read_keys(self.key), **options)  # type: ignore[arg-type]


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


@pytest.fixture
def open_writer(chain: Chain) -> Iterator[Callable[[], ReceiptWriter]]:
    """Opens writers on the chain, and closes them after the test."""
    opened: list[ReceiptWriter] = []

    def make() -> ReceiptWriter:
        opened.append(chain.writer())
        return opened[-1]

    yield make
    for writer in opened:
        writer.close()
