"""Invalid package archives: each one is refused with a specific code, within its bound."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from wasmrt.catalog.package import FolderFiles, open_files, read_archive
from wasmrt.core.errors import PackageError, WasmrtError
from wasmrt.core.limits import MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES, MIB


def zipped(*files: tuple[str, bytes], edit: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if edit is not None:
                edit(info)
            archive.writestr(info, data)
    return out.getvalue()


def tarred(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for info, data in entries:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def refusal(data: bytes) -> str:
    with pytest.raises(PackageError) as refused:
        read_archive(data)
    return refused.value.code


FILES = {"manifest.toml": b'id = "a"', "schemas/a/b.json": b"{}", "empty": b""}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_the_files_of_an_archive_are_read_by_name(kind: str) -> None:
    if kind == "zip":
        data = zipped(("schemas/", b""), *FILES.items())
    else:
        folder = [(tar_entry("./schemas", tarfile.DIRTYPE), b"")]
        data = tarred(*folder, *((tar_entry(f"./{name}"), data) for name, data in FILES.items()))

    assert read_archive(data) == FILES


NAMES = {
    "/etc/passwd": "package-name",
    "C:/x": "package-name",
    "c:x": "package-name",
    "\\\\server\\x": "package-name",
    "../x": "package-name",
    "a/../../x": "package-name",
    "a/..": "package-name",
    "a\\..\\x": "package-name",
    "a//b": "package-name",
    "a/./b": "package-name",
    "a\nb": "package-name",
    "con": "package-name",
    "a/NUL.txt": "package-name",
    "trailing.": "package-name",
    "a" * 300: "package-name",
    "/".join("a" * 20): "package-name",
    "über": "package-name",
    "a:stream": "package-name",
}


@pytest.mark.parametrize(("name", "code"), NAMES.items())
def test_a_name_outside_the_package_is_refused(name: str, code: str) -> None:
    assert refusal(tarred((tar_entry(name), b"x"))) == code
    if "\\" not in name or os.sep == "/":
        assert refusal(zipped((name, b"x"))) == code


@pytest.mark.parametrize("make", [zipped, lambda *files: tarred(*((tar_entry(n), d) for n, d in files))])
@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("a", "a"), "package-duplicate"),
        (("a", "A"), "package-case"),
        (("x/a", "X/b"), "package-case"),
        (("a", "a/b"), "package-duplicate"),
        (("a/b", "a"), "package-duplicate"),
    ],
)
def test_two_names_that_are_equal_on_some_system_are_refused(
    make: Callable[..., bytes], names: tuple[str, str], code: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert refusal(make(*((name, b"x") for name in names))) == code


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (tarfile.SYMTYPE, "package-link"),
        (tarfile.LNKTYPE, "package-link"),
        (tarfile.CHRTYPE, "package-device"),
        (tarfile.BLKTYPE, "package-device"),
        (tarfile.FIFOTYPE, "package-device"),
        (tarfile.CONTTYPE, "package-device"),
        (tarfile.GNUTYPE_SPARSE, "package-device"),
        (b"Z", "package-device"),
    ],
)
def test_a_tar_entry_that_is_not_a_regular_file_is_refused(kind: bytes, code: str) -> None:
    assert refusal(tarred((tar_entry("a", kind, "/etc/passwd"), b""))) in (code, "package-broken")


@pytest.mark.parametrize(
    ("mode", "code"),
    [(stat.S_IFLNK | 0o777, "package-link"), (stat.S_IFCHR, "package-device"), (stat.S_IFIFO, "package-device")],
)
def test_a_zip_entry_that_is_not_a_regular_file_is_refused(mode: int, code: str) -> None:
    def edit(info: zipfile.ZipInfo) -> None:
        info.create_system, info.external_attr = 3, mode << 16

    assert refusal(zipped(("a", b"/etc/passwd"), edit=edit)) == code


@pytest.mark.ci("slow")
def test_a_zip_bomb_is_refused_before_it_is_inflated() -> None:
    data = zipped(*((f"{number}", bytes(30 * MIB)) for number in range(4)))
    assert len(data) < MIB

    tracemalloc.start()
    try:
        assert refusal(data) == "package-too-large"
        assert tracemalloc.get_traced_memory()[1] < MAX_PACKAGE_BYTES + 40 * MIB
    finally:
        tracemalloc.stop()


def test_a_file_is_never_inflated_beyond_the_size_in_its_header() -> None:
    data = bytearray(zipped(("a", bytes(64 * MIB))))
    at = data.rfind(b"PK\x01\x02")
    struct.pack_into("<L", data, at + 24, 10)

    tracemalloc.start()
    try:
        assert refusal(bytes(data)) == "package-too-large"
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.ci("slow")
def test_a_tar_bomb_is_refused_at_the_size_bound() -> None:
    header = tar_entry("a")
    header.size = 8 * 1024 * MIB
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = packed.compress(header.tobuf(tarfile.GNU_FORMAT)) + packed.compress(bytes(MIB) * 300) + packed.flush()

    assert refusal(data) == "package-too-large"


@pytest.mark.ci("slow")
def test_a_bomb_after_the_last_entry_is_refused() -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as archive:
        archive.addfile(tar_entry("a"), io.BytesIO())
    data = gzip.compress(inner.getvalue() + bytes(MIB) * 200)

    assert refusal(data) == "package-too-large"


def test_a_million_entries_are_refused_within_the_bound() -> None:
    one = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 16960, 16960, 10**6 * len(one), 0, 0)
    many = tarfile.TarInfo("a").tobuf()
    tarball = gzip.compress(many * (MAX_PACKAGE_ENTRIES * 8), 1)

    assert refusal(one * 10**6 + end) == "package-entries"
    assert refusal(tarball) in ("package-duplicate", "package-entries")


def test_many_different_entries_of_a_tar_are_counted() -> None:
    blocks = b"".join(tarfile.TarInfo(f"f{number}").tobuf() for number in range(MAX_PACKAGE_ENTRIES + 2))

    assert refusal(gzip.compress(blocks + bytes(1024), 1)) == "package-entries"


def headers(kind: bytes, size: int, count: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) * count


@pytest.mark.ci("slow")
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
@pytest.mark.parametrize(("size", "count"), [(0, 100_000), (8 * 1024 * MIB - 1, 1)])
def test_headers_before_an_entry_cannot_bypass_the_bounds(kind: bytes, size: int, count: int) -> None:
    packed = zlib.compressobj(1, zlib.DEFLATED, 31)
    data = packed.compress(headers(kind, size, count)) + packed.compress(bytes(MIB) * 200 * (count == 1))
    data += packed.flush()

    tracemalloc.start()
    try:
        assert refusal(data) in ("package-broken", "package-too-large", "package-entries")
        assert tracemalloc.get_traced_memory()[1] < 3 * MAX_PACKAGE_BYTES
    finally:
        tracemalloc.stop()


def test_many_names_of_one_compressed_file_count_with_their_total_size() -> None:
    data = zipped(("a", bytes(MIB)))
    at, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    local, entry = data[:at], data[at:end]
    count = MAX_PACKAGE_BYTES // MIB + 1
    names = [f"{number:04}".encode() for number in range(count)]
    longer = [entry[:28] + struct.pack("<H", 4) + entry[30:46] + name + entry[47:] for name in names]
    directory = b"".join(longer)
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(local), 0)

    assert refusal(local + directory + tail) in ("package-broken", "package-too-large")


def edited(data: bytes, at: bytes, offset: int, value: bytes) -> bytes:
    place = data.rfind(at) + offset
    return data[:place] + value + data[place + len(value) :]


ONE = zipped(("a", b"some text, some text"))


@pytest.mark.parametrize(
    "data",
    [
        b"PK",
        ONE[:-1],
        ONE + b"x",
        ONE[:40],
        edited(ONE, b"PK\x01\x02", 8, b"\x01\x00"),  # encrypted
        edited(ONE, b"PK\x01\x02", 10, b"\x0c\x00"),  # an unknown method
        edited(ONE, b"PK\x01\x02", 16, b"\0\0\0\0"),  # a wrong checksum
        edited(ONE, b"PK\x01\x02", 42, b"\xff\xff\0\0"),  # outside the file
        edited(ONE, b"PK\x01\x02", 46, b"b"),  # a name that differs from the local header
        edited(ONE, b"PK\x03\x04", 8, b"\0\0"),  # a method that differs from the directory
        edited(ONE, b"PK\x05\x06", 10, b"\x02\x00"),  # more entries than there are
        edited(ONE, b"PK\x01\x02", 24, b"\xff\xff\xff\xff"),  # zip64
        gzip.compress(b"no tar"),
        gzip.compress(bytes(10)),
        tarred((tar_entry("a"), b"x"))[:-9],
        tarred((tar_entry("a"), b"x")) + b"more",
        b"\x1f\x8b\x08",
        b"neither",
        b"",
    ],
    ids=map(str, range(19)),  # some of the archives contain the current time
)
def test_a_damaged_archive_raises_a_typed_error(data: bytes) -> None:
    assert refusal(data) == "package-broken"


def test_truncated_and_modified_archives_are_read_or_raise_a_typed_error() -> None:
    whole = zipped(*FILES.items())
    for data in (whole, tarred(*((tar_entry(name), data) for name, data in FILES.items()))):
        for at in range(0, len(data), 3):
            for changed in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
                try:
                    read_archive(changed)
                except WasmrtError as error:
                    assert error.code.startswith("package-")


def test_a_folder_provides_no_file_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "link").symlink_to(secret)
    (package / "inner/up").symlink_to(tmp_path)
    os.mkfifo(package / "pipe")
    files = open_files(package)

    for name in ("link", "inner/up/secret", "pipe"):
        with pytest.raises(PackageError):
            files.read(name, max_bytes=10)
    for name in ("../secret", str(secret)):
        with pytest.raises(PackageError, match=r"outside of the package|absolute"):
            files.read(name, max_bytes=10)
    assert isinstance(files, FolderFiles)
    with pytest.raises(PackageError, match=r"link|regular file"):
        files.names()


def test_a_single_top_level_folder_is_stripped(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(("desk-1.0/manifest.toml", b"x"), ("desk-1.0/wasm/a.wasm", b"y")))

    assert open_files(path).read("manifest.toml", max_bytes=10) == b"x"
