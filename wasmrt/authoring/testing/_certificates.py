"""Certificates for servers on loopback, of an authority that nobody else trusts."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

_DAY = timedelta(days=1)


def loopback_certificates(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make an authority, and a certificate of its own for the DNS name `name`; both hold for a day.

    Args:
        name: The server's DNS name.
        folder: A private folder that the caller disposes of; the server's key lies in it.

    Returns:
        The PEM file of the authority, for `NetworkConfig.ca_file`, and the context of a server.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    authority, server = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    issuer = (
        _dated("an authority of one server", "an authority of one server")
        .public_key(authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_signs_certificates(), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority, SHA256())
    )
    certificate = (
        _dated(name, "an authority of one server")
        .public_key(server.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority, SHA256())
    )
    ca_file, chain, key = (folder / file for file in ("authority.pem", "server.pem", "key.pem"))
    ca_file.write_bytes(issuer.public_bytes(Encoding.PEM))
    chain.write_bytes(certificate.public_bytes(Encoding.PEM))
    key.touch(mode=0o600)
    key.write_bytes(server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return ca_file, context


def _dated(subject: str, issuer: str) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (subject, issuer)]
    dated = x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1])
    return dated.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)


def _signs_certificates() -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
