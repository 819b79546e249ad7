"""Rejected certificates: each failure names the problem, and quotes nothing from the certificate."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from wasmrt.testing import FakeCall, FakeResolver, ScriptedServer, http_response

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig

from .world import HOST, MakeWorld

SAID = "words of the certificate"
NOW = datetime.now(UTC)


def refusal(context: ssl.SSLContext, ca_file: Path | None) -> HttpFailure:
    """Return the failure of a request, with a secret in its URL, to a server with this certificate."""
    config = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({HOST: ["127.0.0.1"]}), ca_file=ca_file
    )
    with ScriptedServer(lambda r, c: http_response(b"x"), tls=context) as server, EgressGateway(config) as gateway:
        origin = f"https://{HOST}:{server.port}"
        call = FakeCall(Capabilities.none().with_http([EndpointPattern(HOST, ports=(server.port,))]))
        with pytest.raises(HttpFailure) as caught:
            gateway.fetch(call, HttpRequest("GET", f"{origin}/path?query"))
        assert not server.requests
    failure = caught.value
    assert (failure.code, failure.request_sent) == ("tls-certificate", False)
    assert failure.message.startswith(f"the certificate of {origin} ")
    assert SAID not in failure.message and "example.org" not in failure.message and "/path" not in failure.message
    assert failure.__context__ is None
    return failure


def serving(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def loaded(chain: bytes, key: bytes, folder: Path) -> ssl.SSLContext:
    path = folder / "server.pem"
    path.write_bytes(key + chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def for_clients_only(authority: trustme.CA, folder: Path) -> ssl.SSLContext:
    """Return a certificate for the right name from a trusted authority, but only for clients. RFC 5280 4.2.1.12.

    It is valid otherwise, including RFC 5280 4.2.1.1 and 4.2.1.6, which Python 3.13 verifies strictly.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    issuer_key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder(issuer_name=issuer.subject, subject_name=x509.Name([]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    raw_key = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return loaded(certificate.public_bytes(pem), raw_key, folder)


@pytest.mark.parametrize("trusted", ["another authority", "the system's"])
def test_an_unknown_authority_is_reported_with_the_setting_that_adds_it(ca_file: Path, trusted: str) -> None:
    context = serving(trustme.CA(organization_name=SAID).issue_cert(HOST))
    failure = refusal(context, ca_file if trusted == "another authority" else None)
    assert failure.message.endswith("is not from a trusted authority")
    assert "wasmrt config set network.ca_file FILE" in str(failure.hint)


def test_a_self_signed_certificate_is_reported_as_an_unknown_authority(ca_file: Path, tmp_path: Path) -> None:
    itself = trustme.CA(organization_name=SAID)
    context = loaded(itself.cert_pem.bytes(), itself.private_key_pem.bytes(), tmp_path)
    failure = refusal(context, ca_file)
    assert failure.message.endswith("is not from a trusted authority")


@pytest.mark.parametrize("name", ["somebody.example.org", "127.0.0.1"])
def test_a_certificate_for_another_host_is_reported(authority: trustme.CA, ca_file: Path, name: str) -> None:
    failure = refusal(serving(authority.issue_cert(name, organization_name=SAID)), ca_file)
    assert failure.message.endswith("is for another host name")
    assert "ca_file" not in str(failure.hint)


def test_a_certificate_for_a_name_is_not_valid_for_its_address(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"x"), names=(HOST,))
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(w.call(), HttpRequest("GET", w.url(host="127.0.0.1")))
    assert caught.value.message.endswith("is for another host name")


@pytest.mark.parametrize(
    ("begins", "ends", "said"), [(-2, -1, "has expired"), (1, 2, "is not valid yet")], ids=["expired", "too early"]
)
def test_an_expired_or_not_yet_valid_certificate_is_reported(
    authority: trustme.CA, ca_file: Path, begins: int, ends: int, said: str
) -> None:
    days = {"not_before": NOW + timedelta(days=begins), "not_after": NOW + timedelta(days=ends)}
    failure = refusal(serving(authority.issue_cert(HOST, organization_name=SAID, **days)), ca_file)
    assert failure.message.endswith(said)
    assert "clock" in str(failure.hint)


def test_other_certificate_problems_are_reported_by_number(
    authority: trustme.CA, ca_file: Path, tmp_path: Path
) -> None:
    failure = refusal(for_clients_only(authority, tmp_path), ca_file)
    assert failure.message.endswith("cannot be trusted (OpenSSL's verify error 26)")
