"""Requests signed on the host, compared with AWS's published examples and with a server's verification."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.capabilities.file import format_file, parse
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import parse_url
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.gateway._signing import AwsKey, SignedRequest, aws_headers

from .world import HOST, MakeWorld

# From AWS documents, assembled from parts so that no scanner reports a leak.
KEY = AwsKey("AKIAIOSF" + "ODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCY" + "EXAMPLEKEY")
AT = datetime(2013, 5, 24, tzinfo=UTC)
S3 = CredentialLocation.aws_sigv4("us-east-1", "s3")
SECRET = "hmac-key-of-" + "the-desk-1"
TOKEN = "token-of-" + "the-desk-1"


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


@pytest.mark.parametrize(
    ("method", "url", "body", "signature"),
    [
        # "Examples: Signature Calculations in AWS Signature Version 4", Amazon S3 API Reference
        ("GET", "https://examplebucket.s3.amazonaws.com/?lifecycle", b"",
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("GET", "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", b"",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)  # fmt: skip
def test_a_signature_equals_the_published_example(method: str, url: str, body: bytes, signature: str) -> None:
    headers = dict(aws_headers(S3, KEY, SignedRequest(method, parse_url(url), (), body, AT)))

    assert headers["x-amz-date"] == "20130524T000000Z"
    assert headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    assert headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={KEY.id}/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
    )


@pytest.mark.parametrize(("service", "path"), [("s3", "/a%20b/%C3%BC"), ("execute-api", "/a%2520b/%25C3%25BC")])
def test_the_path_is_signed_unchanged_for_s3_and_encoded_again_for_other_services(service: str, path: str) -> None:
    request = SignedRequest("GET", parse_url("https://desk.example.com/a%20b/%c3%bc"), (), b"", AT)
    headers = dict(aws_headers(CredentialLocation.aws_sigv4("eu-west-1", service), KEY, request))

    digest, stamp = hashlib.sha256(b"").hexdigest(), "20130524T000000Z"
    names = "host;x-amz-content-sha256;x-amz-date"
    lines = f"host:desk.example.com\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n"
    canonical = f"GET\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"20130524/eu-west-1/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{KEY.secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    assert headers["Authorization"].endswith(f"Signature={key.hex()}")


def test_every_part_of_a_request_changes_its_signature() -> None:
    def signed(method: str = "PUT", url: str = "https://b.s3.amazonaws.com/a%20b?x=1", body: bytes = b"1", **more: str):
        headers = tuple((name.replace("_", "-"), value) for name, value in more.items())
        return dict(aws_headers(S3, KEY, SignedRequest(method, parse_url(url), headers, body, AT)))["Authorization"]

    other = [
        signed(method="POST"),
        signed(url="https://b.s3.amazonaws.com/a%20c?x=1"),
        signed(url="https://b.s3.amazonaws.com/a%20b?x=2"),
        signed(url="https://c.s3.amazonaws.com/a%20b?x=1"),
        signed(body=b"2"),
        signed(x_amz_acl="private"),
        signed(content_type="text/plain"),
    ]
    assert len({signed(), *other}) == 8
    assert signed() == signed(accept="*/*")
    assert signed(url="https://b.s3.amazonaws.com/a%20b?b=1&a=2") == signed(
        url="https://b.s3.amazonaws.com/a%20b?a=2&b=1"
    )


def mapping(location: CredentialLocation) -> CredentialMapping:
    return CredentialMapping(secret_name="key", location=location, host_patterns=(HOST,))


def test_requests_are_signed_on_the_host_and_the_secret_is_not_sent(world: MakeWorld) -> None:
    w = world(ok)
    value = f"{KEY.id}:{KEY.secret}:session-token-of-an-hour"
    call = w.call(mapping(S3), secrets={"key": value})
    w.gateway.fetch(call, HttpRequest("PUT", w.url("/reports/a.txt"), (), b"text"))

    (received,) = w.server.requests
    assert str(received.header("Authorization")).startswith(f"AWS4-HMAC-SHA256 Credential={KEY.id}/")
    assert received.header("x-amz-content-sha256") == hashlib.sha256(b"text").hexdigest()
    assert received.header("x-amz-security-token") == "session-token-of-an-hour"
    assert KEY.secret not in str(received)


@pytest.mark.parametrize(("encoding", "timed"), [("hex", False), ("base64", False), ("hex", True)])
def test_a_body_signature_passes_the_servers_verification(world: MakeWorld, encoding: str, timed: bool) -> None:
    w = world(ok)
    location = CredentialLocation.hmac_sha256(
        "X-Signature", "sha256=", encoding=encoding, timestamp_name="X-Time" if timed else ""
    )
    call = w.call(mapping(location), secrets={"key": SECRET})
    w.gateway.fetch(call, HttpRequest("POST", w.url("/"), (), b'{"a": 1}'))

    (received,) = w.server.requests
    text = received.body if not timed else f"{received.header('X-Time')}.".encode() + received.body
    digest = hmac.new(SECRET.encode(), text, hashlib.sha256).digest()
    assert received.header("X-Signature") == "sha256=" + (
        digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
    )
    assert SECRET not in str(received)


def test_a_signed_request_also_has_its_other_credentials(world: MakeWorld) -> None:
    w = world(ok)
    token = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    call = w.call(
        mapping(CredentialLocation.hmac_sha256("X-Signature")), token, secrets={"key": SECRET, "token": TOKEN}
    )
    w.gateway.fetch(call, HttpRequest("POST", w.url("/"), (), b"body"))

    (received,) = w.server.requests
    assert received.header("Authorization") == f"Bearer {TOKEN}"
    assert received.header("X-Signature") == hmac.new(SECRET.encode(), b"body", hashlib.sha256).hexdigest()


@pytest.mark.parametrize("name", ["Authorization", "X-Amz-Date", "x-amz-content-sha256", "X-AMZ-Security-Token"])
def test_a_guest_cannot_set_the_headers_of_a_signature(world: MakeWorld, name: str) -> None:
    w = world(ok)
    call = w.call(mapping(S3), secrets={"key": f"{KEY.id}:{KEY.secret}"})
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(call, HttpRequest("GET", w.url("/"), ((name, "mine"),), None))
    assert caught.value.code == "header-not-allowed" and w.server.requests == []


@pytest.mark.parametrize("value", ["no-colon-in-this-key", ":secret-without-an-id", "id-without-a-secret:"])
def test_a_secret_that_is_not_an_access_key_is_refused_without_its_text(world: MakeWorld, value: str) -> None:
    w = world(ok)
    call = w.call(mapping(S3), secrets={"key": value})
    with pytest.raises(HttpFailure) as caught:
        w.get("/", call)
    assert caught.value.code == "credential-unusable" and value not in str(caught.value)
    assert w.server.requests == []


@pytest.mark.parametrize("session", ["", "a1B2c3D4e5" * 40], ids=["without a session", "with a long one"])
def test_no_part_of_a_key_is_returned_by_an_echo(world: MakeWorld, session: str) -> None:
    parts = [KEY.secret, *([session] if session else [])]
    w = world(lambda request, connection: http_response("\n".join(["key:", *parts, "end"]).encode()))
    call = w.call(mapping(S3), secrets={"key": ":".join([KEY.id, *parts])})

    answer = w.get("/", call).body.decode()
    assert answer.startswith("key:") and answer.endswith("end")
    assert not any(part[at : at + 16] in answer for part in parts for at in range(0, len(part), 8))


@pytest.mark.parametrize(
    "location",
    [
        S3,
        CredentialLocation.hmac_sha256("X-Sig"),
        CredentialLocation.hmac_sha256("X-Sig", "v1=", encoding="base64", timestamp_name="X-T"),
    ],
)
def test_a_signing_credential_round_trips_through_a_capability_file(location: CredentialLocation) -> None:
    text = f"""{{"http": {{"allowlist": [{{"host": "{HOST}"}}], "credentials": {{"key": {{"secret_name": "key",
    "location": {__import__("json").dumps(location.as_dict())}, "host_patterns": ["{HOST}"]}}}}}}}}"""
    file = parse(text)

    assert file.capabilities.http is not None
    assert file.capabilities.http.credentials[0].location == location
    assert parse(format_file(file)) == file


@pytest.mark.parametrize(
    "make",
    [
        lambda: CredentialLocation.aws_sigv4("", "s3"),
        lambda: CredentialLocation.aws_sigv4("eu/central", "s3"),
        lambda: CredentialLocation.hmac_sha256("Host"),
        lambda: CredentialLocation.hmac_sha256("X-Sig", encoding="octal"),
        lambda: CredentialLocation.hmac_sha256("X-Sig", timestamp_name="x-sig"),
        lambda: CredentialLocation.hmac_sha256("X-Sig", timestamp_name="a b"),
    ],
)
def test_an_invalid_signing_credential_is_refused(make) -> None:
    with pytest.raises(ConfigurationError):
        make()
