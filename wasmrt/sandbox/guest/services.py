"""The guest's access to its host: one method that answers requests.

The host decides every request under the call's grant; a refusal is a `HostFailure`. In process, `handle` is a method
call; in a worker it sends a frame. Requests that no grant could allow, such as sockets, are refused on the guest's side
and only recorded by the host (`Refuse`).
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from wasmrt.core.limits import DEFAULT_MAX_REQUEST_BYTES
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.requests import (
    HostFailure,
    HttpCheck,
    HttpClose,
    HttpOpen,
    HttpRead,
    HttpReadAll,
    Refuse,
    ReportProgress,
    Request,
    SecretExists,
    plain,
)

Reply = TypeVar("Reply")


class HostServices(Protocol):
    """The host services of one call."""

    @property
    def has_workspace(self) -> bool:
        """True if the call has a workspace."""

    @property
    def max_write_bytes(self) -> int:
        """The maximum size of a written file; 0 if the call may not write."""

    @property
    def max_request_bytes(self) -> int:
        """The maximum size of an HTTP request's body."""

    def handle(self, request: Request[Reply]) -> Reply:
        """Answer one request.

        Raises:
            HostFailure: the host denied the request or failed.
            BaseException: the call has ended.
        """


class HttpResponse:
    """An open response of the host, for the guest's imports. Methods raise `HostFailure`."""

    def __init__(self, services: HostServices, request: HttpOpen) -> None:
        self._services = services
        self._handle, self.status, self.headers = services.handle(request)

    def read(self) -> bytes:
        """Wait for the next piece of the body and return it; empty at the end of the body."""
        return self._services.handle(HttpRead(self._handle))

    def read_all(self) -> bytes:
        """Wait for the rest of the body and return it."""
        return self._services.handle(HttpReadAll(self._handle))

    def close(self) -> None:
        """Close the response. Call it once."""
        self._services.handle(HttpClose(self._handle))


class NoServices:
    """A host that grants nothing, for describing a component."""

    has_workspace = False
    max_write_bytes = 0
    max_request_bytes = DEFAULT_MAX_REQUEST_BYTES

    def handle(self, request: Request[Reply]) -> Reply:
        """Refuse every request; progress and refusals are ignored.

        Raises:
            HostFailure: nothing is granted.
        """
        failure = HostFailure(
            FailureKind.NETWORK_DENIED, "not-granted", "nothing is granted while a tool is prepared", denied=True
        )
        answers = {HttpCheck: failure, SecretExists: False, ReportProgress: None, Refuse: None}
        if type(request) not in answers:
            raise failure
        return request.read_reply(plain(answers[type(request)]))
