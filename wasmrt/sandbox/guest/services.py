"""The guest's access to its host: one method, `handle`, that answers requests.

The host decides every request under the call's grant. If it denies a request, `handle` raises `HostFailure`. A guest
in the host's process calls the host directly; in a worker, `handle` sends a frame. Requests that no grant could allow,
such as sockets, are denied on the guest's side, and the host only records them (`Refuse`).
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from wasmrt.core.limits import DEFAULT_MAX_REQUEST_BYTES
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.replies import HostFailure, plain
from wasmrt.sandbox.guest.requests import (
    ConfigGet,
    ConfigList,
    HttpCheck,
    HttpClose,
    HttpOpen,
    HttpRead,
    HttpReadAll,
    Refuse,
    ReportProgress,
    Request,
    SecretExists,
)

Reply = TypeVar("Reply")


class HostServices(Protocol):
    """The host services of one call."""

    @property
    def has_workspace(self) -> bool:
        """True if the call has a workspace."""

    @property
    def max_write_bytes(self) -> int:
        """The maximum size in bytes of a file that the call writes; 0 if the call may not write files."""

    @property
    def max_request_bytes(self) -> int:
        """The maximum size in bytes of an HTTP request's body."""

    def handle(self, request: Request[Reply]) -> Reply:
        """Answer one request.

        Raises:
            HostFailure: the host denied the request or failed.
            BaseException: the call has ended.
        """


class HttpResponse:
    """An open HTTP response, from which the guest's imports read. The methods raise `HostFailure` if the host fails."""

    def __init__(self, services: HostServices, request: HttpOpen) -> None:
        self._services = services
        self._handle, self.status, self.headers = services.handle(request)

    def read(self) -> bytes:
        """Wait for the next piece of the body and return it. The result is empty at the end of the body."""
        return self._services.handle(HttpRead(self._handle))

    def read_all(self) -> bytes:
        """Wait for the rest of the body and return it."""
        return self._services.handle(HttpReadAll(self._handle))

    def close(self) -> None:
        """Close the response. Call it once."""
        self._services.handle(HttpClose(self._handle))


class NoServices:
    """A host that grants nothing. It is used while a component is described."""

    has_workspace = False
    max_write_bytes = 0
    max_request_bytes = DEFAULT_MAX_REQUEST_BYTES

    def handle(self, request: Request[Reply]) -> Reply:
        """Deny every request, except that progress reports and records of denials are accepted and ignored.

        `HttpCheck` is answered with the denial, `SecretExists` with False, and the configuration is empty.

        Raises:
            HostFailure: any other request, because nothing is granted.
        """
        failure = HostFailure(
            FailureKind.NETWORK_DENIED, "not-granted", "nothing is granted while a tool is prepared", denied=True
        )
        nothing: dict[type[object], object] = dict.fromkeys((ConfigGet, ReportProgress, Refuse))
        answers = nothing | {HttpCheck: failure, SecretExists: False, ConfigList: []}
        if type(request) not in answers:
            raise failure
        return request.read_reply(plain(answers[type(request)]))
