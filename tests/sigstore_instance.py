"""A private Sigstore instance: authority, certificate log, transparency log and the trusted root that names them.

It writes bundles as cosign does: in-toto statements in the log's entries of the kind dsse, version 0.0.1.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.asn1 import encode_der
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from wasmrt.catalog.signing import Signer

ISSUER = "https://token.actions.githubusercontent.com"
REPOSITORY = "https://github.com/acme/tools"
WORKFLOW = f"{REPOSITORY}/.github/workflows/release.yml"
IDENTITY = f"{WORKFLOW}@refs/tags/v1.2.0"
SIGNER = Signer("", f"{WORKFLOW}@refs/tags/*", ISSUER, REPOSITORY, f"{WORKFLOW}@refs/tags/*")
START = datetime(2026, 5, 4, 12, tzinfo=UTC)
V03 = "application/vnd.dev.sigstore.bundle.v0.3+json"
KIND = b"application/vnd.in-toto+json"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sign_with(key: EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ECDSA(SHA256()))


def public(key: EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def canonical(tree: object) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()


def statement_of(*digests: str, predicate: str = "https://sigstore.dev/cosign/sign/v1") -> bytes:
    """Return the in-toto statement that names content with these SHA-256 digests."""
    subjects = [{"name": f"file {at}", "digest": {"sha256": digest}} for at, digest in enumerate(digests)]
    head = {"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": {}}
    return canonical(head | {"subject": subjects})


class Instance:
    """The keys of the instance. Every attribute can be replaced before signing, to make an invalid bundle."""

    def __init__(self) -> None:
        self.ca, self.certificates, self.log = (generate_private_key(SECP256R1()) for _ in range(3))
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root"), *_organization()])
        self.root = (
            _builder(self.name, self.name, self.ca, START - timedelta(days=30), timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.ca.public_key()), critical=False)
            .sign(self.ca, SHA256())
        )

    def trusted_root(self) -> dict[str, Any]:
        """Return the tree of a `trusted_root.json`."""
        valid = {"start": (START - timedelta(days=30)).isoformat().replace("+00:00", "Z")}

        def log(key: EllipticCurvePrivateKey) -> dict[str, Any]:
            raw = {"rawBytes": b64(public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
            identity = {"keyId": b64(hashlib.sha256(public(key)).digest())}
            return {"baseUrl": "https://log.test", "hashAlgorithm": "SHA2_256", "publicKey": raw, "logId": identity}

        chain = {"certificates": [{"rawBytes": b64(self.root.public_bytes(Encoding.DER))}]}
        authority = {"subject": {"organization": "test", "commonName": "root"}, "uri": "https://ca.test"}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log)], "ctlogs": [log(self.certificates)], "timestampAuthorities": [],
            "certificateAuthorities": [authority | {"certChain": chain, "validFor": valid}],
        }  # fmt: skip

    def certify(self, key: EllipticCurvePrivateKey, identity: str, texts: dict[int, str]) -> x509.Certificate:
        """Return a certificate for ten minutes, with a timestamp of the certificate log."""
        named: x509.GeneralName = x509.UniformResourceIdentifier(identity)
        named = named if "://" in identity else x509.RFC822Name(identity)
        builder = (
            _builder(x509.Name([]), self.name, key, START, timedelta(minutes=10))
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([named]), critical=True)
        )  # fmt: skip
        for number, text in texts.items():
            oid = x509.ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}")
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, encode_der(text)), critical=False)
        logged = builder.sign(self.ca, SHA256()).tbs_certificate_bytes
        millis = int(START.timestamp() * 1000).to_bytes(8)
        issuer = hashlib.sha256(public(self.ca)).digest()
        # RFC 6962, 3.2: version 1, certificate_timestamp, precert_entry, no extensions.
        signed = b"\0\0" + millis + b"\0\1" + issuer + len(logged).to_bytes(3) + logged + b"\0\0"
        signature = sign_with(self.certificates, signed)
        timestamp = b"\0" + hashlib.sha256(public(self.certificates)).digest() + millis + b"\0\0\4\3"
        timestamp += len(signature).to_bytes(2) + signature
        listed = (len(timestamp) + 2).to_bytes(2) + len(timestamp).to_bytes(2) + timestamp
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
        wrapped = x509.UnrecognizedExtension(oid, b"\x04" + _length(listed) + listed)
        return builder.add_extension(wrapped, critical=False).sign(self.ca, SHA256())

    def sign(
        self,
        *digests: str,
        identity: str = IDENTITY,
        issuer: str = ISSUER,
        repository: str = REPOSITORY,
        workflow: str = IDENTITY,
        minutes: int = 1,
        statement: bytes | None = None,
        kind: bytes = KIND,
        version: str = V03,
        signs: bool = True,
    ) -> bytes:
        """Return a bundle over content with these SHA-256 digests, logged some minutes after the certificate.

        If it `signs` nothing, the signature is made with another key than the certificate's.
        """
        key = generate_private_key(SECP256R1())
        texts = {8: issuer, 12: repository, 18: workflow}
        certificate = self.certify(key, identity, {number: text for number, text in texts.items() if text})
        payload = statement or statement_of(*digests)
        signing = key if signs else generate_private_key(SECP256R1())
        signature = sign_with(signing, b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
        pem = b64(certificate.public_bytes(Encoding.PEM))
        body = canonical({
            "apiVersion": "0.0.1", "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
                "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
                "signatures": [{"signature": b64(signature), "verifier": pem}],
            },
        })  # fmt: skip
        envelope = {"payload": b64(payload), "payloadType": kind.decode(), "signatures": [{"sig": b64(signature)}]}
        entry = self._entry(body, "dsse", START + timedelta(minutes=minutes))
        return _bundle(version, certificate, entry, {"dsseEnvelope": envelope})

    def sign_bytes(self, content: bytes) -> bytes:
        """Return a bundle over bytes, as `cosign sign-blob` and `sigstore sign` write it."""
        key = generate_private_key(SECP256R1())
        certificate = self.certify(key, IDENTITY, {8: ISSUER, 12: REPOSITORY, 18: IDENTITY})
        signature, digest = sign_with(key, content), hashlib.sha256(content).digest()
        pem = {"content": b64(certificate.public_bytes(Encoding.PEM))}
        spec = {
            "data": {"hash": {"algorithm": "sha256", "value": digest.hex()}},
            "signature": {"content": b64(signature), "publicKey": pem},
        }
        body = canonical({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec})
        message = {"messageDigest": {"algorithm": "SHA2_256", "digest": b64(digest)}, "signature": b64(signature)}
        entry = self._entry(body, "hashedrekord", START + timedelta(minutes=1))
        return _bundle(V03, certificate, entry, {"messageSignature": message})

    def _entry(self, body: bytes, kind: str, at: datetime) -> dict[str, Any]:
        """Return the entry of the log, which is the second of two."""
        first, leaf = hashlib.sha256(b"\0first").digest(), hashlib.sha256(b"\0" + body).digest()
        top = hashlib.sha256(b"\1" + first + leaf).digest()
        note = f"log.test - 1\n2\n{b64(top)}\n"
        identity = hashlib.sha256(public(self.log)).digest()
        signed = b64(identity[:4] + sign_with(self.log, note.encode()))
        seconds = int(at.timestamp())
        promised = {"body": b64(body), "integratedTime": seconds, "logID": identity.hex(), "logIndex": 1}
        return {
            "logIndex": "1", "logId": {"keyId": b64(identity)}, "kindVersion": {"kind": kind, "version": "0.0.1"},
            "integratedTime": str(seconds), "canonicalizedBody": b64(body),
            "inclusionPromise": {"signedEntryTimestamp": b64(sign_with(self.log, canonical(promised)))},
            "inclusionProof": {
                "logIndex": "1", "treeSize": "2", "rootHash": b64(top), "hashes": [b64(first)],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.test {signed}\n"},
            },
        }  # fmt: skip


def changed(bundle: bytes, *keys: str | int, value: object) -> bytes:
    """Return a bundle with another value at a place; None removes it."""
    tree: Any = json.loads(bundle)
    at = tree
    for key in keys[:-1]:
        at = at[key]
    if value is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return json.dumps(tree).encode()


def _bundle(version: str, certificate: x509.Certificate, entry: dict[str, Any], content: dict[str, Any]) -> bytes:
    raw = {"rawBytes": b64(certificate.public_bytes(Encoding.DER))}
    is_old = "version=0.1" in version or "version=0.2" in version
    certified = {"x509CertificateChain": {"certificates": [raw]}} if is_old else {"certificate": raw}
    material = certified | {"tlogEntries": [entry]}
    return json.dumps({"mediaType": version, "verificationMaterial": material} | content).encode()


def _organization() -> list[x509.NameAttribute[str]]:
    return [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "test")]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, start: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject, issuer_name=issuer, public_key=key.public_key(),
        serial_number=x509.random_serial_number(), not_valid_before=start, not_valid_after=start + lasts,
    )  # fmt: skip


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _length(data: bytes) -> bytes:
    return bytes([len(data)]) if len(data) < 128 else bytes([0x81, len(data)])
