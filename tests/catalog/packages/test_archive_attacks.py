"""Archives that other programs could read differently: each is refused by `wasmrt install`, and nothing is stored."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import stat
import struct
import tarfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.catalog.installer.made_components import component
from wasmrt.catalog.package import read_archive
from wasmrt.cli import cli
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import MAX_PACKAGE_ENTRIES, MIB

MANIFEST = b'name = "parrot"\nfiles = ["README.md"]\n'
FILES = {"wasmrt.toml": MANIFEST, "parrot.wasm": component(), "README.md": b"hello\n"}
WIDER = b'name = "parrot"\ncapabilities = "wider.json"\nfiles = ["README.md"]\n'


# -- making archives -----------------------------------------------------------------------------------------------


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: object) -> bytes:
    """Return a tar entry: header, contents and padding."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def sized(block: bytes, field: bytes) -> bytes:
    """Return a tar entry with another size field and a correct checksum."""
    header = block[:124] + field.ljust(12, b"\0") + block[136:148] + b" " * 8 + block[156:512]
    return header[:148] + b"%06o\0 " % sum(header) + header[156:] + block[512:]


def record(key: str, value: str) -> bytes:
    size = len(f" {key}={value}\n".encode())
    while len(str(size)) + len(f" {key}={value}\n".encode()) > size:
        size += 1
    return f"{size} {key}={value}\n".encode()


def pax(*records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return entry("pax", b"".join(records), kind)


GOOD = b"".join(entry(name, data) for name, data in FILES.items())
END = bytes(1024)


def tarball(*parts: bytes) -> bytes:
    return gzip.compress(b"".join(parts), 1, mtime=0)


def zipped(*more: tuple[str, bytes], edit: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    """Return a zip archive of the package and more files; `edit` changes the entries of the latter."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings(action="ignore"):
        for name, data in FILES.items():
            archive.writestr(name, data)
        for name, data in more:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            if edit is not None:
                edit(info)
            archive.writestr(info, data)
    return out.getvalue()


ONE = zipped(("last", b"text"))
LAST, FOOT = ONE.rfind(b"PK\x01\x02"), ONE.rfind(b"PK\x05\x06")
LOCAL = ONE.rfind(b"PK\x03\x04")


def changed(at: int, form: str, *values: int | bytes) -> bytes:
    data = bytearray(ONE)
    struct.pack_into(form, data, at, *values)
    return bytes(data)


def linked(info: zipfile.ZipInfo) -> None:
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16


def with_directory(*names: bytes) -> bytes:
    """Return a zip archive whose directory has more names for the last file."""
    start, end = ONE.index(b"PK\x01\x02"), FOOT
    last = ONE[LAST:end]
    more = b"".join(last[:28] + struct.pack("<H", len(name)) + last[30:46] + name for name in names)
    count = len(FILES) + 1 + len(names)
    foot = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, end - start + len(more), start, 0)
    return ONE[:end] + more + foot


def shifted(archive: bytes, by: int) -> bytes:
    """Return a zip archive whose offsets count from `by` bytes before its start."""
    data, at = bytearray(archive), archive.index(b"PK\x01\x02")
    foot = archive.rfind(b"PK\x05\x06")
    struct.pack_into("<L", data, foot + 16, at + by)
    while at < foot:
        name, extra, comment = struct.unpack_from("<3H", data, at + 28)
        struct.pack_into("<L", data, at + 42, struct.unpack_from("<L", data, at + 42)[0] + by)
        at += 46 + name + extra + comment
    return bytes(data)


def overlapping() -> bytes:
    """Return a zip archive in which the stored contents of one file are the local header and contents of another."""
    inner_name, inner = b"inner", b"x" * 50
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 33, zlib.crc32(inner), 50, 50, 5, 0)
    within = local + inner_name + inner
    outer = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 33, zlib.crc32(within), len(within), len(within), 5, 0)
    data = outer + b"outer" + within
    rows = [(zlib.crc32(within), len(within), b"outer", 0), (zlib.crc32(inner), 50, inner_name, len(outer) + 5)]
    directory = b"".join(
        struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, crc, size, size, 5, 0, 0, 0, 0, 0, at) + name
        for crc, size, name, at in rows
    )
    foot = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), len(data), 0)
    return data + directory + foot


# -- what is refused -----------------------------------------------------------------------------------------------

TARS: dict[str, tuple[bytes, str]] = {
    "link out, then a file through it": (
        entry("schemas", kind=tarfile.SYMTYPE, linkname="/tmp") + entry("schemas/x", b"x"), "package-link",
    ),
    "hard link to the manifest, then the manifest again": (
        entry("alias", kind=tarfile.LNKTYPE, linkname="wasmrt.toml") + entry("alias", WIDER), "package-link",
    ),
    "link with a long target": (
        entry("L", b"/" + b"t" * 300 + b"\0", b"K") + entry("x", kind=tarfile.SYMTYPE, linkname="t"), "package-link",
    ),
    "second manifest": (entry("wasmrt.toml", WIDER), "package-duplicate"),
    "second manifest as ./": (entry("./wasmrt.toml", WIDER), "package-duplicate"),
    "second manifest by a long name": (entry("L", b"wasmrt.toml\0", b"L") + entry("x", WIDER), "package-duplicate"),
    "second manifest by a pax name": (pax(record("path", "wasmrt.toml")) + entry("x", WIDER), "package-duplicate"),
    "second manifest in capitals": (entry("WASMRT.TOML", WIDER), "package-case"),
    "manifest that is a folder, too": (entry("wasmrt.toml", kind=tarfile.DIRTYPE), "package-duplicate"),
    "pax name out of the package": (pax(record("path", "../../x")) + entry("x"), "package-name"),
    "absolute pax name": (pax(record("path", "/etc/x")) + entry("x"), "package-name"),
    "long name out of the package": (entry("L", b"../x\0", b"L") + entry("x"), "package-name"),
    "name that ends at a NUL in one reader only": (
        pax(record("path", "a\0/../x")) + entry("x"), "package-name",
    ),
    "long name that goes on after its NUL": (entry("L", b"a\0b\0", b"L") + entry("x"), "package-name"),
    "composed and decomposed letters": (entry("caf\u00e9") + entry("cafe\u0301"), "package-name"),
    "backslashes": (entry("a\\..\\..\\x"), "package-name"),
    "two pax names": (pax(record("path", "a"), record("path", "b")) + entry("x"), "package-broken"),
    "two extended headers with a name": (
        pax(record("path", "a")) + pax(record("path", "b")) + entry("x"), "package-broken",
    ),
    "long name and pax name": (
        entry("L", b"a\0", b"L") + pax(record("path", "b")) + entry("x"), "package-broken",
    ),
    "name for all entries": (pax(record("path", "README.md"), kind=tarfile.XGLTYPE), "package-broken"),
    "size for all entries": (pax(record("size", "0"), kind=tarfile.XGLTYPE) + entry("x", b"x"), "package-broken"),
    "link target of a file": (pax(record("linkpath", "/etc/passwd")) + entry("x"), "package-broken"),
    "pax size with an exponent": (pax(record("size", "1e3")) + entry("x"), "package-broken"),
    "pax size with an underscore": (pax(record("size", "5_1")) + entry("x"), "package-broken"),
    "pax size with a sign": (pax(record("size", "+5")) + entry("x", b"hello"), "package-broken"),
    "pax size in other digits": (pax(record("size", "\u0665")) + entry("x", b"hello"), "package-broken"),
    "negative pax size": (pax(record("size", "-512")) + entry("x"), "package-broken"),
    "pax size that skips an entry": (
        pax(record("size", "1024")) + entry("x", b"") + entry("y", b"y"), "package-broken",
    ),
    "pax record that is longer than its header": (pax(b"99 path=x\n") + entry("x"), "package-broken"),
    "pax record of no length": (pax(b"0 path=x\n") + entry("x"), "package-broken"),
    "extended header without an entry": (pax(record("path", "x")), "package-broken"),
    "negative binary size": (sized(entry("x"), b"\xff" * 10 + b"\xfe\0"), "package-too-large"),
    "size of nine digits and a letter": (sized(entry("x"), b"0000000010x"), "package-broken"),
    "decimal size": (sized(entry("x"), b"9"), "package-broken"),
    "size beyond the end": (sized(entry("x"), b"00000077777"), "package-broken"),
    "folder with contents that are entries": (entry("d", entry("hidden"), tarfile.DIRTYPE), "package-broken"),
    "sparse file by pax": (
        pax(record("GNU.sparse.major", "1"), record("GNU.sparse.realsize", str(10**12))) + entry("x"),
        "package-device",
    ),
    "device": (entry("x", kind=tarfile.CHRTYPE, devmajor=1, devminor=3), "package-device"),
    "pipe": (entry("x", kind=tarfile.FIFOTYPE), "package-device"),
    "contiguous file": (entry("x", b"x", tarfile.CONTTYPE), "package-device"),
    "volume label": (entry("x", kind=b"V"), "package-device"),
    "entry with a wrong checksum, as if it were the end": (
        entry("x")[:148] + b"0000000\0" + entry("x")[156:] + entry("y"), "package-broken",
    ),
}  # fmt: skip
AFTER_THE_END = {
    "second archive": tarball(GOOD, END, entry("wasmrt.toml", WIDER), END),
    "entry after one empty block": tarball(GOOD, bytes(512), entry("x"), END),
    "second gzip member": tarball(GOOD, END) + tarball(entry("x"), END),
    "text after the end": tarball(GOOD, END, b"#!/bin/sh\n"),
    "part of a header": tarball(GOOD, entry("x")[:300]),
    "wrong checksum of gzip": tarball(GOOD, END)[:-8] + bytes(8),
}
ZIPS: dict[str, tuple[bytes, str]] = {
    "link out, then a file through it": (zipped(("schemas", b"/tmp"), edit=linked), "package-link"),
    "second manifest": (zipped(("wasmrt.toml", WIDER)), "package-duplicate"),
    "second manifest in capitals": (zipped(("Wasmrt.toml", WIDER)), "package-case"),
    "manifest that is a folder, too": (zipped(("wasmrt.toml/x", WIDER)), "package-duplicate"),
    "backslashes": (changed(LOCAL + 30, "<4s", b"a\\.."), "package-broken"),
    "name with a NUL in the directory only": (changed(LAST + 46, "<4s", b"la\0t"), "package-name"),
    "name that differs in the local header": (changed(LOCAL + 30, "<4s", b"../x"), "package-broken"),
    "composed letters": (zipped(("caf\u00e9", b"")), "package-name"),
    "encrypted": (changed(LAST + 8, "<H", 1), "package-broken"),
    "encrypted in the local header only": (changed(LOCAL + 6, "<H", 1), "package-broken"),
    "strong encryption": (changed(LAST + 8, "<H", 0x40), "package-broken"),
    "hidden local headers": (changed(LAST + 8, "<H", 0x2000), "package-broken"),
    "zip64 sizes": (changed(LAST + 20, "<2L", 0xFFFFFFFF, 0xFFFFFFFF), "package-broken"),
    "zip64 offset": (changed(LAST + 42, "<L", 0xFFFFFFFF), "package-broken"),
    "zip64 count": (changed(FOOT + 8, "<2H", 0xFFFF, 0xFFFF), "package-entries"),
    "fewer entries than the directory has": (changed(FOOT + 8, "<2H", 3, 3), "package-broken"),
    "directory of another disk": (changed(FOOT + 4, "<H", 1), "package-broken"),
    "file on another disk": (changed(LAST + 34, "<H", 1), "package-broken"),
    "smaller than stated": (changed(LAST + 24, "<L", 5), "package-broken"),
    "larger than stated": (changed(LAST + 24, "<L", 3), "package-too-large"),
    "contents that end outside of the archive": (changed(LAST + 20, "<L", 60_000), "package-broken"),
    "one file under two names": (with_directory(b"wider.json"), "package-broken"),
    "one file twice": (with_directory(b"last"), "package-duplicate"),
    "text after the end": (ONE + b"#!/bin/sh\n", "package-broken"),
    "second archive after the first": (ONE[:-2] + struct.pack("<H", len(ONE) - 1) + ONE, "package-broken"),
    "first archive before the second": (ONE + shifted(ONE, len(ONE)), "package-broken"),
    "entry before the first": (ONE[:LOCAL] + shifted(ONE, LOCAL), "package-broken"),
    "overlapping files": (overlapping(), "package-broken"),
    "method that is not deflate": (changed(LAST + 10, "<H", 14), "package-broken"),
}


def refused(tmp_path: Path, name: str, data: bytes) -> str:
    """Install an archive; return the code of the refusal after checking that nothing was stored or written."""
    path = tmp_path / name
    path.write_bytes(data)
    before = sorted(each for each in tmp_path.rglob("*") if "cache" not in each.parts)
    ran = CliRunner().invoke(cli, ["install", str(path), "--yes", "--json"], prog_name="wasmrt")
    assert ran.exit_code == 2, f"exit code {ran.exit_code}: {ran.output[-300:]!r} {ran.exception!r}"
    assert sorted(each for each in tmp_path.rglob("*") if "cache" not in each.parts) == before
    return str(json.loads(ran.stderr)["code"])


@pytest.mark.parametrize(("extra", "code"), TARS.values(), ids=TARS)
def test_a_tar_archive_with_a_trick_is_not_installed(tmp_path: Path, extra: bytes, code: str) -> None:
    assert refused(tmp_path, "parrot.tar.gz", tarball(GOOD, extra, END)) == code


@pytest.mark.parametrize("data", AFTER_THE_END.values(), ids=AFTER_THE_END)
def test_a_tar_archive_that_goes_on_after_its_end_is_not_installed(tmp_path: Path, data: bytes) -> None:
    assert refused(tmp_path, "parrot.tar.gz", data) == "package-broken"


@pytest.mark.parametrize(("data", "code"), ZIPS.values(), ids=ZIPS)
def test_a_zip_archive_with_a_trick_is_not_installed(tmp_path: Path, data: bytes, code: str) -> None:
    assert refused(tmp_path, "parrot.zip", data) == code


# -- what is accepted ----------------------------------------------------------------------------------------------


def made_by(form: int, **fields: object) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=form, pax_headers={"comment": "0" * 40}) as archive:
        for name, data in FILES.items():
            info = tarfile.TarInfo(f"{'d' * 120}/{name}")
            info.size, info.mtime = len(data), 1.5  # in pax, the time needs an extended header
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def streamed() -> bytes:
    """Return a zip archive of a program that writes to a pipe, with a data descriptor after each file."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return out.getvalue()


MADE = {
    "zip": zipped(),
    "zip with data descriptors": streamed(),
    "zip with a comment": ONE[:-2] + b"\5\0hello",
    "pax": made_by(tarfile.PAX_FORMAT),
    "GNU": made_by(tarfile.GNU_FORMAT),
    "ustar": made_by(tarfile.USTAR_FORMAT),
    "setuid": made_by(tarfile.PAX_FORMAT, mode=0o6755),
    "owned by a user with an odd name": made_by(tarfile.PAX_FORMAT, uname="r\u00f6\u00f6t\0", uid=10**8),
    "without padding at the end": tarball(GOOD),
    "with attributes of macOS": tarball(
        pax(record("LIBARCHIVE.xattr.com.apple.provenance", "AQIA"), record("mtime", "1.5")), GOOD, END
    ),
}


@pytest.mark.parametrize("data", MADE.values(), ids=MADE)
def test_an_archive_of_an_ordinary_program_is_installed(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / ("parrot.zip" if data.startswith(b"PK") else "parrot.tar.gz")
    path.write_bytes(data)
    ran = CliRunner().invoke(cli, ["install", str(path), "--yes", "--json"], prog_name="wasmrt")
    assert ran.exit_code == 0, ran.output[-300:]
    stored = [each for each in (tmp_path / "home").rglob("*.wasm") if each.is_file()]
    assert [each.stat().st_mode & 0o7777 for each in stored] == [0o600]


# -- what it costs -------------------------------------------------------------------------------------------------

SLOW: dict[str, Callable[[], bytes]] = {
    "record that is one long number": lambda: pax(b"9" * MIB + b" a=b\n"),
    "many records for all entries": lambda: (
        pax(*(record(f"k{number}", "") for number in range(100_000)), kind=tarfile.XGLTYPE) + many()
    ),
    "many records for each entry": lambda: (
        pax(*(record(f"k{number}", "") for number in range(80))) + entry("x")
    ) * 2000,
}  # fmt: skip


def many() -> bytes:
    return b"".join(entry(f"f{number}") for number in range(MAX_PACKAGE_ENTRIES - 10))


@pytest.mark.ci("slow")
@pytest.mark.parametrize("make", SLOW.values(), ids=SLOW)
def test_extended_headers_are_read_in_linear_time(make: Callable[[], bytes]) -> None:
    ordinary = seconds_to_read(tarball(many(), END))
    assert seconds_to_read(tarball(make(), END)) < 20 * ordinary


def seconds_to_read(data: bytes) -> float:
    began = time.process_time()
    with contextlib.suppress(PackageError):
        read_archive(data)
    return time.process_time() - began
