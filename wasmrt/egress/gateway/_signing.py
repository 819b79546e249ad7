"""Signatures of requests, computed on the host: AWS Signature Version 4, and an HMAC of the body."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from wasmrt.capabilities import CredentialLocation
from wasmrt.core.url import ParsedUrl
from wasmrt.egress.gateway._headers import Headers

_UNRESERVED = "-_.~"
_SIGNED = ("content-type", "host")


class AwsKey(NamedTuple):
    """An AWS access key, from a secret of the form `ID:SECRET` or `ID:SECRET:SESSION-TOKEN`."""

    id: str
    secret: str
    session: str = ""

    @classmethod
    def read(cls, text: str) -> AwsKey | None:
        """Parse the value of a secret. Return None if the value does not have this form."""
        parts = text.split(":", 2)
        usable = len(parts) > 1 and all(part.isascii() and part.isprintable() and part for part in parts)
        return cls(*parts) if usable else None


class SignedRequest(NamedTuple):
    """The parts of a request that are signed."""

    method: str
    url: ParsedUrl
    headers: Headers
    body: bytes
    at: datetime
    """The time of the signature, in UTC."""


def aws_headers(location: CredentialLocation, key: AwsKey, request: SignedRequest) -> Headers:
    """Return the headers that sign a request for AWS ("Signature Version 4 signing process", AWS General Reference).

    The signature covers the host, the content type and every header that starts with `x-amz-`.
    """
    stamp = f"{request.at:%Y%m%dT%H%M%SZ}"
    digest = hashlib.sha256(request.body).hexdigest()
    own = [("x-amz-content-sha256", digest), ("x-amz-date", stamp)]
    own += [("x-amz-security-token", key.session)] if key.session else []
    signed: dict[str, str] = {"host": request.url.authority}
    for name, value in (*request.headers, *own):
        lower = name.lower()
        if lower in _SIGNED or lower.startswith("x-amz-"):
            signed[lower] = ",".join(filter(None, (signed.get(lower), " ".join(value.split()))))
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    path, query = _make_canonical_path(request.url.path, location.service), _make_canonical_query(request.url.query)
    canonical = "\n".join((request.method, path, query, lines, names, digest))
    scope = f"{stamp[:8]}/{location.region}/{location.service}/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = _sign_with_derived_key(f"AWS4{key.secret}".encode(), scope.split("/"), text)
    login = f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return (*own, ("Authorization", login))


def hmac_headers(location: CredentialLocation, secret: str, request: SignedRequest) -> Headers:
    """Return the header with the HMAC-SHA256 (RFC 2104) of the body.

    If the time is signed, the time header comes first, and the signed text is the Unix time in seconds, a full stop,
    and the body.
    """
    text, headers = request.body, []
    if location.timestamp_name:
        stamp = str(int(request.at.timestamp()))
        text = stamp.encode() + b"." + text
        headers.append((location.timestamp_name, stamp))
    digest = hmac.new(secret.encode(), text, hashlib.sha256).digest()
    shown = digest.hex() if location.encoding == "hex" else base64.b64encode(digest).decode()
    return (*headers, (location.name, f"{location.prefix}{shown}"))


def _sign_with_derived_key(key: bytes, parts: Sequence[str], text: str) -> str:
    """Derive the signing key from `key` and `parts` (day, region, service and suffix), and return the signature."""
    for part in parts:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _make_canonical_path(path: str, service: str) -> str:
    # S3 signs the path unchanged; all other services sign it percent-encoded a second time.
    if service == "s3":
        return quote(unquote_to_bytes(path), safe=f"/{_UNRESERVED}")
    return quote(quote(unquote_to_bytes(path), safe=f"/{_UNRESERVED}"), safe=f"/{_UNRESERVED}")


def _make_canonical_query(query: str | None) -> str:
    if not query:
        return ""
    pairs = (piece.partition("=")[::2] for piece in query.split("&") if piece)
    encoded = (
        (quote(unquote_to_bytes(a), safe=_UNRESERVED), quote(unquote_to_bytes(b), safe=_UNRESERVED)) for a, b in pairs
    )
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))
