"""Verify keyless signatures (Sigstore bundles with a certificate) offline. Imported on use: it needs wasmrt[sigstore].

The client gets all content as values, and the trusted root from a file. It never updates the root over the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.asn1 import decode_der
from cryptography.x509 import (
    Certificate,
    ObjectIdentifier,
    RFC822Name,
    SubjectAlternativeName,
    UniformResourceIdentifier,
    UnrecognizedExtension,
)
from sigstore.hashes import Hashed
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore_models.common.v1 import HashAlgorithm

from wasmrt.catalog.signing._bundle import BundleError, read_statement
from wasmrt.catalog.signing._signer import Signer, without_tag
from wasmrt.catalog.sources import read_source
from wasmrt.core.errors import ComponentTooLargeError, SourceError
from wasmrt.core.limits import MAX_TRUSTED_ROOT_BYTES
from wasmrt.core.strict_json import JsonError, read_json

_PACKAGED = "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"
# Extensions of Fulcio's certificates: github.com/sigstore/fulcio, docs/oid-info.md.
_ISSUER, _REPOSITORY, _WORKFLOW = (ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{last}") for last in (8, 12, 18))


class Root(NamedTuple):
    """The certificates and keys of a Sigstore instance: its authorities and logs."""

    path: Path
    newest: datetime
    """The start of the newest certificate or key; content that was signed with a newer one cannot be verified."""
    is_packaged: bool

    def __str__(self) -> str:
        age = (datetime.now(UTC) - self.newest).days
        name = f"of sigstore {version('sigstore')}" if self.is_packaged else str(self.path)
        return f"trusted root {name}, newest key {age} days old"


def find_root(configured: Path | None) -> Root:
    """Return the operator's trusted root, or by default the one in the package `sigstore`.

    Raises:
        SourceError: the file does not exist, cannot be read, or is not a trusted root.
    """
    path = configured or Path(str(files("sigstore._store") / _PACKAGED / "trusted_root.json"))
    try:
        data = read_source(path, "trusted root", max_bytes=MAX_TRUSTED_ROOT_BYTES)
        tree = read_json(data, max_bytes=MAX_TRUSTED_ROOT_BYTES, max_depth=16)
        newest = max(datetime.fromisoformat(text) for text in _iter_start_times(tree))
    except (ComponentTooLargeError, JsonError, AttributeError, KeyError, TypeError, ValueError):
        raise _make_invalid_root_error(path) from None
    return Root(path, newest, is_packaged=configured is None)


def verify_keyless(data: bytes, signed: Sequence[str], root: Root) -> tuple[Signer, frozenset[str]]:
    """Verify a bundle with a certificate; return the signer and the SHA-256 digests that the signature covers.

    `signed` begins with the digest of the component or archive, for signatures of its bytes alone.

    Raises:
        BundleError: the bundle is malformed, or a part of it is invalid.
        SourceError: the root is not a trusted root.
    """
    try:
        verifier = Verifier(trusted_root=TrustedRoot.from_file(str(root.path)))
    except Exception:  # as below
        raise _make_invalid_root_error(root.path) from None
    try:
        bundle = Bundle.from_json(data)
        covers = _verify_content(verifier, bundle, signed)
        return read_signer(bundle.signing_certificate), covers
    except BundleError:
        raise
    except Exception as error:  # the client also raises errors of its parsers
        raise BundleError(f"{str(error) or type(error).__name__:.300}") from error


def _verify_content(verifier: Verifier, bundle: Bundle, signed: Sequence[str]) -> frozenset[str]:
    if bundle._inner.dsse_envelope is None:
        verifier.verify_artifact(_hash_for_verification(signed), bundle, _AnyIdentity())
        return frozenset(signed[:1])
    # SECURITY: the digests come from the verified bytes; another parser could have read other ones.
    _, statement = verifier.verify_dsse(bundle, _AnyIdentity())
    return read_statement(statement)


def _hash_for_verification(signed: Sequence[str]) -> Hashed:
    if not signed:
        raise BundleError("the signature is for different content")
    return Hashed(algorithm=HashAlgorithm.SHA2_256, digest=bytes.fromhex(signed[0]))


class _AnyIdentity:
    """The client's policy for certificates. The caller compares the identity with the pinned or required one."""

    def verify(self, cert: Certificate) -> None:
        """Accept the certificate."""


def read_signer(certificate: Certificate) -> Signer:
    """Return the signer that a verified certificate names.

    Raises:
        BundleError: the certificate names no email address or URI, or more than one, or it names no issuer.
    """
    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    uris = names.get_values_for_type(UniformResourceIdentifier)
    found = [*map(without_tag, uris), *names.get_values_for_type(RFC822Name)]
    if len(found) != 1 or len(names) != 1:
        raise BundleError("expected one email address or URI in the certificate")
    values = {each.oid: each.value for each in certificate.extensions}
    texts = [_read_extension(values.get(oid)) for oid in (_ISSUER, _REPOSITORY, _WORKFLOW)]
    if not texts[0]:
        raise BundleError("the certificate does not name the issuer of its identity")
    return Signer("", found[0], texts[0], texts[1], without_tag(texts[2]))


def _read_extension(value: object) -> str:
    return decode_der(str, value.value) if isinstance(value, UnrecognizedExtension) else ""


def _iter_start_times(tree: Any) -> Iterator[str]:
    """Yield the times from which each certificate and key of a trusted root is valid."""
    for kind in ("tlogs", "ctlogs"):
        yield from (each["publicKey"]["validFor"]["start"] for each in tree.get(kind, ()))
    for kind in ("certificateAuthorities", "timestampAuthorities"):
        yield from (each["validFor"]["start"] for each in tree.get(kind, ()))


def _make_invalid_root_error(path: Path) -> SourceError:
    return SourceError(
        f"{path.name!r} is not a trusted root of Sigstore",
        code="trusted-root", hint="set install.trusted_root to a trusted_root.json, or remove the setting",
    )  # fmt: skip
