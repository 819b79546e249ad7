"""A client of one repository in an OCI registry: manifests and blobs by digest, over https, with a login on demand.

The caller passes the function that sends a request, which decides the addresses, and the function that finds a login.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode, urljoin

from wasmrt.core.errors import SourceError
from wasmrt.core.limits import MAX_MANIFEST_BYTES, MAX_REGISTRY_REDIRECTS, MAX_TOKEN_RESPONSE_BYTES
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.url import InvalidUrlError, parse_url

SCHEME = "oci://"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# The grammar of names and tags in the distribution specification 1.1, "Pulling manifests".
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
_MAX_NAME_CHARS = 255
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")  # RFC 6750 2.1
_PARAMETER = re.compile(r'([a-zA-Z]{1,32})="([^"\\]{0,2048})"')
CATALOG = "_catalog"
"""A placeholder for the name of a repository, to request the registry's list of all repositories."""
_NEXT = re.compile(r'\s*<([^>]{1,2048})>\s*;\s*rel="?next"?')
_MAX_PAGES = 10
_NOT_SUPPORTED = (400, 404, 405)  # the answers of registries without the API of referrers
_REDIRECTS = (301, 302, 303, 307, 308)
Headers = tuple[tuple[str, str], ...]


class Reply(Protocol):
    """A response of a registry. The body is empty unless the status is 200."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> Headers:
        """The headers in the received order."""

    @property
    def body(self) -> bytes:
        """The body, without content coding."""


class Send(Protocol):
    """Sends one request of a registry's client, and follows no redirect."""

    def __call__(self, method: str, url: str, headers: Headers, body: bytes | None, max_bytes: int) -> Reply:
        """Return the response to a request to the registry, or to a GET request to a host with public addresses.

        Raises:
            SourceError: the request was denied or failed, or the body has more than `max_bytes`.
        """


FindLogin = Callable[[str], str | None]
"""Returns the value of the Authorization header that is stored for a registry, or None."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A manifest in a registry: `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:HEX`."""

    host: str
    """The host, with a port unless it is 443."""
    name: str
    version: str
    """A tag or a digest."""

    def __str__(self) -> str:
        return f"{SCHEME}{self.host}/{self.name}{'@' if self.is_pinned else ':'}{self.version}"

    @property
    def is_pinned(self) -> bool:
        """True if the version is a digest."""
        return ":" in self.version

    @property
    def origin(self) -> str:
        """The registry's origin."""
        return f"https://{self.host}"

    def of(self, name: str) -> str:
        """Return a repository of the registry, as a reference without tag."""
        return f"{SCHEME}{self.host}/{name}"


def parse_reference(text: str) -> Reference:
    """Parse a reference. It must name its host, and a tag or a digest: there are no defaults.

    Raises:
        SourceError: the text is not a reference.
    """
    host, _, path = text.removeprefix(SCHEME).partition("/")
    name, pin, version = path.partition("@")
    grammar = DIGEST
    if not pin:
        name, _, version = path.partition(":")
        grammar = _TAG
    is_name = len(name) <= _MAX_NAME_CHARS and _NAME.fullmatch(name)
    if not (text.startswith(SCHEME) and is_name and grammar.fullmatch(version)):
        raise SourceError(
            f"expected oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:HEX, got {text!r:.200}",
            hint="names are in lower case; a tag or a digest is required",
        )
    try:
        return Reference(parse_url(f"https://{host}/").authority, name, version)
    except InvalidUrlError as error:
        raise SourceError(
            f"the registry's host is invalid: {error.message}", hint="write oci://HOST/NAME:TAG"
        ) from None


def digest_of(data: bytes) -> str:
    """Return the digest of a blob or manifest, as registries write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """The repository of a reference.

    SECURITY: every digest is computed here. Headers of the registry with digests are not read. Logins and tokens are
    only sent to the registry's own host and port.
    """

    def __init__(self, reference: Reference, send: Send, find_login: FindLogin, *, actions: str = "pull") -> None:
        """Send nothing yet. `actions` are the permissions that a token gets: `pull` or `pull,push`."""
        self._reference = reference
        self._base = f"{reference.origin}/v2/{reference.name}"
        self._send = send
        self._find_login = find_login
        self._actions = actions
        is_catalog = reference.name == CATALOG
        self._scope = "registry:catalog:*" if is_catalog else f"repository:{reference.name}:{actions}"
        self._shown_name = "the list of its repositories" if is_catalog else reference.name
        self._authorization: str | None = None

    def get_manifest(self) -> tuple[bytes, str]:
        """Return the manifest of the reference, and its digest.

        Raises:
            SourceError: the manifest does not exist, has another digest than the reference, or cannot be fetched.
        """
        version = self._reference.version
        url, accept = f"{self._base}/manifests/{version}", (("Accept", MANIFEST_TYPE),)
        data = self._get(url, accept, MAX_MANIFEST_BYTES, str(self._reference))
        digest = digest_of(data)
        if self._reference.is_pinned and digest != version:
            raise _make_mismatch_error("the manifest", version, digest)
        return data, digest

    def get_blob(self, digest: str, size: int) -> bytes:
        """Return the blob with a digest and a size, which the caller has limited.

        Raises:
            SourceError: the blob has another digest or size, or cannot be fetched.
        """
        return self._get_exactly(f"blobs/{digest}", (), size)

    def get_referrer(self, digest: str, size: int) -> bytes:
        """Return the manifest with a digest and a size, which the caller has limited.

        Raises:
            SourceError: the manifest has another digest or size, or cannot be fetched.
        """
        return self._get_exactly(f"manifests/{digest}", (("Accept", MANIFEST_TYPE),), size)

    def find_index(self, path: str) -> tuple[bytes | None, bool]:
        """Return the index at a path of the repository, and whether it is incomplete (it has further pages).

        The index is None if the registry does not have it.

        Raises:
            SourceError: the index cannot be fetched.
        """
        url, accept = f"{self._base}/{path}", (("Accept", INDEX_TYPE),)
        reply = self._request("GET", url, accept, max_bytes=MAX_MANIFEST_BYTES)
        if reply.status in _NOT_SUPPORTED:
            return None, False
        if reply.status != 200:
            raise _unexpected("the registry did not list the signatures", reply)
        return reply.body, bool(_get_header(reply, "link"))

    def list_names(self, path: str, key: str) -> tuple[list[str], bool]:
        """Return the names under a key of the list at a path and on its next pages, and whether there are more pages.

        The path is relative to the repository, and begins with `/` or `?`.

        Raises:
            SourceError: the registry does not have the list, or a page cannot be read.
        """
        names: list[str] = []
        url = self._base + path
        for _ in range(_MAX_PAGES):
            reply = self._request("GET", url, max_bytes=MAX_MANIFEST_BYTES)
            if reply.status != 200:
                raise _unexpected(f"the registry does not list its {key}", reply)
            try:
                tree = read_json(reply.body, max_bytes=MAX_MANIFEST_BYTES, max_depth=4)
            except JsonError as error:
                raise _unexpected(f"the registry's list of {key} is {error}", reply) from None
            match tree:
                case {**members} if isinstance(page := members.get(key) or [], list):
                    names += [name for name in page if isinstance(name, str)]
                case _:
                    raise _unexpected(f"the registry's list of {key} has another form", reply)
            found = _NEXT.match(_get_header(reply, "link"))
            if found is None:
                return names, False
            url = urljoin(url, found[1])
            if not self._is_own(url):
                raise _unexpected("the registry's next page is at another address", reply)
        return names, True

    def put_blob(self, data: bytes) -> None:
        """Upload a blob in one request, unless the repository has it.

        Raises:
            SourceError: the registry refused the upload.
        """
        digest = digest_of(data)
        if self._request("HEAD", f"{self._base}/blobs/{digest}").status == 200:
            return
        reply = self._request("POST", f"{self._base}/blobs/uploads/", body=b"")
        location = urljoin(self._base, _get_header(reply, "location"))
        if reply.status != 202 or not self._is_own(location):
            raise _unexpected("the registry did not start an upload at its own address", reply)
        url = f"{location}{'&' if '?' in location else '?'}digest={digest}"
        reply = self._request("PUT", url, (("Content-Type", "application/octet-stream"),), data)
        if reply.status != 201:
            raise _unexpected("the registry did not store a blob", reply)

    def put_manifest(self, data: bytes, version: str = "", kind: str = MANIFEST_TYPE) -> str:
        """Store a manifest under a tag or its digest, by default the tag of the reference, and return its digest.

        Raises:
            SourceError: the registry refused the manifest.
        """
        url = f"{self._base}/manifests/{version or self._reference.version}"
        reply = self._request("PUT", url, (("Content-Type", kind),), data)
        if reply.status != 201:
            raise _unexpected("the registry did not store the manifest", reply)
        return digest_of(data)

    def _get_exactly(self, path: str, headers: Headers, size: int) -> bytes:
        digest = path.rpartition("/")[2]
        data = self._get(f"{self._base}/{path}", headers, size, f"the blob {digest}")
        if len(data) != size:
            message = f"the blob {digest} has a different size: expected {size} bytes, got {len(data)}"
            raise SourceError(message, code="size-mismatch", hint="ask the publisher to push the tool again")
        if (got := digest_of(data)) != digest:
            raise _make_mismatch_error("a blob", digest, got)
        return data

    def _get(self, url: str, headers: Headers, max_bytes: int, label: str) -> bytes:
        reply = self._request("GET", url, headers, max_bytes=max_bytes)
        if reply.status == 404:
            raise SourceError(f"the registry does not have {label}", code="not-found", hint="check the name and tag")
        if reply.status != 200:
            raise _unexpected(f"the registry did not send {label}", reply)
        return reply.body

    def _request(
        self, method: str, url: str, headers: Headers = (), body: bytes | None = None, *, max_bytes: int = 0
    ) -> Reply:
        """Send a request, and send it again once after a login."""
        reply = self._follow(method, url, headers, body, max_bytes)
        if reply.status == 401:
            self._log_in(reply)
            reply = self._follow(method, url, headers, body, max_bytes)
        if reply.status in (401, 403):
            raise SourceError(
                f"the registry {self._reference.host} denied {self._actions} for {self._shown_name}",
                code="registry-login", hint=f"check the name; to log in: docker login {self._reference.host}",
            )  # fmt: skip
        return reply

    def _follow(self, method: str, url: str, headers: Headers, body: bytes | None, max_bytes: int) -> Reply:
        """Send a request; follow the redirects of a GET request."""
        for _ in range(MAX_REGISTRY_REDIRECTS + 1):
            # SECURITY: a redirect may lead anywhere, so only the registry itself gets the login, and may demand one.
            own = self._is_own(url)
            login = () if self._authorization is None or not own else (("Authorization", self._authorization),)
            reply = self._send(method, url, (*headers, *login), body, max_bytes)
            if method != "GET" or reply.status not in _REDIRECTS:
                if own or reply.status == 200:
                    return reply
                raise _unexpected("the host of a redirect did not send the content", reply)
            url = urljoin(url, _get_header(reply, "location"))
        raise _unexpected(f"the registry sent more than {MAX_REGISTRY_REDIRECTS} redirects", reply)

    def _is_own(self, url: str) -> bool:
        try:
            parsed = parse_url(url)
        except InvalidUrlError as error:
            message = f"the registry sent an invalid address: {error.message}"
            raise SourceError(message, code=error.code, hint="ask the operator of the registry") from None
        if parsed.scheme != "https":
            message = "the registry sent an address without https"
            raise SourceError(message, code="insecure-scheme", hint="ask the operator of the registry")
        return parsed.origin == self._reference.origin

    def _log_in(self, reply: Reply) -> None:
        """Set the Authorization header from the user's login, or with a token of the registry's realm."""
        host = self._reference.host
        login = self._find_login(host)
        challenges = dict(_iter_challenges(reply))
        if "bearer" in challenges:
            self._authorization = f"Bearer {self._fetch_token(challenges['bearer'], login)}"
        elif "basic" in challenges and login is not None:
            self._authorization = login
        else:
            message = f"the registry {host} requires a login"
            raise SourceError(message, code="registry-login", hint=f"docker login {host}")

    def _fetch_token(self, challenge: dict[str, str], login: str | None) -> str:
        """Request a token. The scope is not taken from the challenge."""
        realm = challenge.get("realm", "")
        # SECURITY: another host must not get the login, nor must this registry get a token that another host issued
        # for the login. Without a login, a token permits nothing that is not public.
        if not self._is_own(realm) and login is not None:
            raise SourceError(
                f"the registry {self._reference.host} asked to send the login to another host or port",
                code="registry-realm", hint="wasmrt sends a login only to the registry itself; pull without a login",
            )  # fmt: skip
        query = {"service": challenge.get("service", ""), "scope": self._scope}
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        headers = () if login is None else (("Authorization", login),)
        reply = self._send("GET", url, headers, None, MAX_TOKEN_RESPONSE_BYTES)
        if reply.status != 200:
            raise SourceError(
                f"the registry {self._reference.host} did not issue a token (status {reply.status})",
                code="registry-login", hint=f"docker login {self._reference.host}",
            )  # fmt: skip
        try:
            tree = read_json(reply.body, max_bytes=MAX_TOKEN_RESPONSE_BYTES, max_depth=8)
        except JsonError:
            tree = None
        token = (tree.get("token") or tree.get("access_token")) if isinstance(tree, dict) else None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise SourceError("the registry sent an invalid token", code="registry-login", hint="try again later")
        return token


def _get_header(reply: Reply, name: str) -> str:
    return next((value for key, value in reply.headers if key.lower() == name), "")


def _iter_challenges(reply: Reply) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the scheme and the parameters of each header with a challenge (RFC 9110, 11.6.1)."""
    for key, value in reply.headers:
        if key.lower() == "www-authenticate":
            scheme, _, parameters = value.strip().partition(" ")
            yield scheme.lower(), {name.lower(): text for name, text in _PARAMETER.findall(parameters)}


def _make_mismatch_error(label: str, expected: str, got: str) -> SourceError:
    message = f"{label} has a different digest: expected {expected}, got {got}"
    return SourceError(message, code="digest-mismatch", hint="do not use this registry until its operator explains it")


def _unexpected(problem: str, reply: Reply) -> SourceError:
    return SourceError(f"{problem} (status {reply.status})", code="registry", hint="try again later")
