"""Sigstore bundles in JSON, and the in-toto statements in them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from wasmrt.core.limits import MAX_BUNDLE_BYTES, MAX_BUNDLE_DEPTH
from wasmrt.core.strict_json import JsonError, read_json

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_BUNDLE_TYPES = {BUNDLE_TYPE, *(f"application/vnd.dev.sigstore.bundle+json;version=0.{n}" for n in (1, 2, 3))}
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://sigstore.dev/cosign/sign/v1"
_MAX_SUBJECTS = 32
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BundleError(ValueError):
    """A bundle is malformed; the message completes `the signature is not valid: `."""


class Bundle(NamedTuple):
    """A signature, with the digests of the content that it covers. Nothing of it is verified yet."""

    hint: str | None
    """The SHA-256 digest of the public key in base64, or None if the bundle has a certificate."""
    signature: bytes
    signed: bytes
    """The SHA-256 digest of the signed bytes."""
    covers: frozenset[str]
    """The SHA-256 digests of the content, in hexadecimal."""


def write_bundle(statement: bytes, signature: bytes, hint: str) -> bytes:
    """Return the bundle of a signed statement."""
    envelope = {
        "payload": _encode(statement),
        "payloadType": _PAYLOAD_TYPE,
        "signatures": [{"sig": _encode(signature)}],
    }
    material = {"publicKey": {"hint": hint}}
    bundle = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
    return (json.dumps(bundle, indent=2) + "\n").encode()


def write_statement(subjects: Mapping[str, str]) -> bytes:
    """Return the statement that names each subject with its SHA-256 digest."""
    named = [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()]
    statement = {"_type": _STATEMENT, "subject": named, "predicateType": PREDICATE, "predicate": {}}
    return json.dumps(statement, separators=(",", ":")).encode()


def digest_to_sign(statement: bytes) -> bytes:
    """Return the SHA-256 digest of the bytes that are signed for a statement (DSSE's pre-authentication encoding)."""
    kind = _PAYLOAD_TYPE.encode()
    return hashlib.sha256(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(statement), statement)).digest()


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle.

    Raises:
        BundleError: the bundle is too large, malformed, or has a statement of another kind.
    """
    tree = _read_object(data, "bundle")
    if tree.get("mediaType") not in _BUNDLE_TYPES:
        raise BundleError(f"expected a bundle of type {BUNDLE_TYPE}")
    key = _read_table(tree, "verificationMaterial").get("publicKey")
    hint = None if key is None else _read_string(_read_table({"publicKey": key}, "publicKey"), "hint")
    if "messageSignature" in tree:
        message = _read_table(tree, "messageSignature")
        digest = _decode(_read_table(message, "messageDigest"), "digest")
        return Bundle(hint, _decode(message, "signature"), digest, frozenset({digest.hex()}))
    envelope = _read_table(tree, "dsseEnvelope")
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or len(signatures) != 1 or not isinstance(signatures[0], dict):
        raise BundleError("expected exactly one signature")
    if envelope.get("payloadType") != _PAYLOAD_TYPE:
        raise BundleError(f"expected a payload of type {_PAYLOAD_TYPE}")
    statement = _decode(envelope, "payload")
    return Bundle(hint, _decode(signatures[0], "sig"), digest_to_sign(statement), read_statement(statement))


def read_statement(statement: bytes) -> frozenset[str]:
    """Return the SHA-256 digests of the subjects of a statement.

    Raises:
        BundleError: the statement is malformed, or of another kind.
    """
    tree = _read_object(statement, "statement")
    if (tree.get("_type"), tree.get("predicateType")) != (_STATEMENT, PREDICATE):
        raise BundleError(f"expected a statement with the predicate {PREDICATE}")
    subjects = tree.get("subject")
    if not isinstance(subjects, list) or not 0 < len(subjects) <= _MAX_SUBJECTS:
        raise BundleError(f"expected 1 to {_MAX_SUBJECTS} subjects")
    found = [
        _read_string(_read_table(_read_table({"subject": each}, "subject"), "digest"), "sha256") for each in subjects
    ]
    if not all(map(_DIGEST.fullmatch, found)):
        raise BundleError("expected SHA-256 digests of the subjects")
    return frozenset(found)


def _read_object(data: bytes, what: str) -> dict[str, Any]:
    try:
        tree = read_json(data, max_bytes=MAX_BUNDLE_BYTES, max_depth=MAX_BUNDLE_DEPTH, distinct=True)
    except JsonError as error:
        raise BundleError(f"the {what} is {error}") from None
    if not isinstance(tree, dict):
        raise BundleError(f"{what}: expected a JSON object, got {type(tree).__name__}")
    return tree


def _read_table(table: dict[str, Any], key: str) -> dict[str, Any]:
    found = table.get(key)
    if not isinstance(found, dict):
        raise BundleError(f"{key}: expected an object, got {type(found).__name__}")
    return found


def _read_string(table: dict[str, Any], key: str) -> str:
    found = table.get(key)
    if not isinstance(found, str):
        raise BundleError(f"{key}: expected a string, got {type(found).__name__}")
    return found


def _decode(table: dict[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(_read_string(table, key), validate=True)
    except (binascii.Error, ValueError):
        raise BundleError(f"{key}: expected base64") from None


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
