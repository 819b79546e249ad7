"""Components and packages at URLs, optionally pinned: `https://HOST/PATH/tool.wasm#sha256=HEX`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from wasmrt.catalog.package import fetch_archive
from wasmrt.catalog.sources import Fetched, digests_to_sign
from wasmrt.core.errors import SourceError
from wasmrt.core.limits import ARCHIVE_SUFFIXES, MAX_ARCHIVE_BYTES, MAX_BUNDLE_BYTES, MAX_CAPABILITY_FILE_BYTES
from wasmrt.core.url import InvalidUrlError, parse_url

Download = Callable[[str, int], bytes]
"""Downloads at most the given number of bytes from a URL, or raises `SourceError`."""
_PIN = re.compile(r"sha256=([0-9a-f]{64})")
_COMPONENT_SUFFIX = ".wasm"


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A component or an archive of a package at a URL.

    Attributes:
        url: An https URL whose path ends in `.wasm` or a suffix of archives. `#sha256=HEX` pins the file.
        download: Downloads the file.
        sidecar: The capability file of a component; None for no capabilities. No URL is guessed for it.

    Raises:
        SourceError: the URL is not an https URL of a component or an archive, or a package has a capability file.
    """

    url: str
    download: Download
    sidecar: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        name = _get_file_name(self.url)
        if not name.endswith((_COMPONENT_SUFFIX, *ARCHIVE_SUFFIXES)):
            raise SourceError(
                f"the URL must end in .wasm, {', '.join(ARCHIVE_SUFFIXES)}, got {name!r:.80}",
                hint="download the file, and install it from its path",
            )
        if self.is_package and self.sidecar is not None:
            raise SourceError(
                "a package contains its capability file, so a separate one cannot be used",
                hint="to grant less, use --grant FILE",
            )

    @property
    def is_package(self) -> bool:
        """True if the file is an archive."""
        return _get_file_name(self.url).endswith(ARCHIVE_SUFFIXES)

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Download the file, and compare its digest with the pinned one.

        Raises:
            SourceError: the download failed, or the file has a different digest.
            PackageError, ManifestError, CapabilityFileError: the package is invalid.
        """
        address, _ = check_url(self.url)
        data = _download_pinned(self.url, self.download, MAX_ARCHIVE_BYTES if self.is_package else max_bytes)
        shown = address.partition("?")[0]  # a query may contain a signature
        if self.is_package:
            fetched = fetch_archive(data, shown, max_bytes=max_bytes)
        else:
            name = _get_file_name(self.url).removesuffix(_COMPONENT_SUFFIX).removesuffix(".component")
            signed = digests_to_sign(data, self.sidecar)
            digest = f"sha256:{signed[0]}"
            fetched = Fetched(data=data, name=name, origin=shown, sidecar=self.sidecar, digest=digest, signed=signed)
        return replace(fetched, resolved=f"{address}#sha256={fetched.digest.removeprefix('sha256:')}")


def check_url(url: str) -> tuple[str, str | None]:
    """Return a URL without its fragment, and the SHA-256 that the fragment pins, or None without a fragment.

    Raises:
        SourceError: the URL is not an https URL, is ambiguous or malformed, or has another fragment.
    """
    address, mark, fragment = url.partition("#")
    try:
        scheme = parse_url(address).scheme
    except InvalidUrlError as error:
        raise SourceError(error.message, code=error.code, hint=error.hint) from error
    if scheme != "https":
        raise SourceError("a tool's URL must begin with https://", hint="use https://, or download the file first")
    pin = _PIN.fullmatch(fragment)
    if mark and pin is None:
        raise SourceError(
            f"expected #sha256= with 64 lower-case hexadecimal digits after the URL, got {'#' + fragment!r:.80}",
            hint="print the digest of a file: sha256sum FILE",
        )
    return address, None if pin is None else pin[1]


def fetch_capability_file(url: str, download: Download) -> bytes:
    """Download a capability file, and compare its digest if the URL pins one.

    Raises:
        SourceError: the URL is invalid, the download failed, or the file has a different digest.
    """
    return _download_pinned(url, download, MAX_CAPABILITY_FILE_BYTES)


def fetch_signature(url: str, download: Download) -> bytes:
    """Download a signature; see `fetch_capability_file`."""
    return _download_pinned(url, download, MAX_BUNDLE_BYTES)


def _download_pinned(url: str, download: Download, max_bytes: int) -> bytes:
    address, pinned = check_url(url)
    data = download(address, max_bytes)
    got = hashlib.sha256(data).hexdigest()
    if pinned is not None and got != pinned:
        raise SourceError(
            f"the file at the URL has a different digest: expected sha256 {pinned}, got {got}",
            code="digest-mismatch", hint="ask the publisher which file is right",
        )  # fmt: skip
    return data


def _get_file_name(url: str) -> str:
    address, _ = check_url(url)
    return unquote(address.partition("?")[0].rpartition("/")[2])
