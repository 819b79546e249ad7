"""Sign with a pair of keys (ECDSA with P-256 and SHA-256), and verify such signatures."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from wasmrt.catalog.signing._bundle import digest_to_sign, write_bundle, write_statement
from wasmrt.catalog.signing._signer import Signer
from wasmrt.catalog.sources import read_source
from wasmrt.core.errors import SourceError

_MAX_KEY_BYTES = 16 * 1024
_PREHASHED = ECDSA(Prehashed(SHA256()))


def make_key_pair() -> tuple[bytes, bytes]:
    """Return a new private key (PKCS #8) and its public key, both as PEM."""
    private = generate_private_key(SECP256R1())
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), public


def read_signer(path: Path) -> Signer:
    """Read the public key in a PEM file.

    Raises:
        SourceError: the file cannot be read, or has no ECDSA P-256 public key.
    """
    try:
        return _make_signer(_check_public_key(load_pem_public_key(read_key(path))))
    except ValueError:
        raise SourceError(
            f"{path.name!r} is not a public key: expected ECDSA P-256 as PEM",
            code="key", hint="create a pair of keys: wasmrt sign --new-key NAME",
        ) from None  # fmt: skip


def read_key(path: Path) -> bytes:
    """Read the file of a key.

    Raises:
        SourceError: the file cannot be read or is too large.
    """
    return read_source(path, "key", max_bytes=_MAX_KEY_BYTES)


def sign(subjects: Mapping[str, str], pem: bytes, password: bytes | None = None) -> tuple[bytes, Signer]:
    """Sign content, given as names with SHA-256 digests, and return the bundle and the signer.

    Raises:
        TypeError: the key is encrypted and no password is given, or the reverse.
        ValueError: the text is not an ECDSA P-256 private key, or the password is wrong.
    """
    key = load_pem_private_key(pem, password)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError("not an ECDSA key")
    signer, statement = _make_signer(_check_public_key(key.public_key())), write_statement(subjects)
    return write_bundle(statement, key.sign(digest_to_sign(statement), _PREHASHED), signer.hint), signer


def is_signed(info: bytes, signature: bytes, digest: bytes) -> bool:
    """Return whether the owner of a key, given as SubjectPublicKeyInfo, signed the data with this SHA-256 digest."""
    try:
        _check_public_key(load_der_public_key(info)).verify(signature, digest, _PREHASHED)
    except InvalidSignature:
        return False
    return True


def _make_signer(key: EllipticCurvePublicKey) -> Signer:
    return Signer(base64.b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode())


def _check_public_key(key: object) -> EllipticCurvePublicKey:
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ValueError("not an ECDSA P-256 key")
    return key
