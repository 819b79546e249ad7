"""HTTP for guests: their requests through the gateway, and its failures as the host's refusals."""

from __future__ import annotations

from wasmrt.core.model import Reason
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, Response
from wasmrt.runtime.call._state import Call
from wasmrt.sandbox.guest.requests import HostFailure, HttpOpen


class GuestHttp:
    """The gateway, as calls of guests use it."""

    def __init__(self, gateway: EgressGateway) -> None:
        self._gateway = gateway
        self.networks = gateway.networks

    def open(self, call: Call, request: HttpOpen) -> GatewayResponse:
        """Send a request through every check and wait for the head of its response.

        Raises:
            HostFailure: why there is none.
        """
        try:
            return GatewayResponse(call, self._gateway.open(call, HttpRequest(*request)))
        except HttpFailure as failure:
            raise _refusal(call, failure) from failure


class GatewayResponse:
    """A `GuestResponse` of the gateway; its failures are the host's refusals."""

    def __init__(self, call: Call, response: Response) -> None:
        self._call = call
        self._response = response
        self.status = response.status
        self.headers = response.headers

    def read(self) -> bytes:
        """Wait for the next piece of the body; empty at its end."""
        try:
            return self._response.read()
        except HttpFailure as failure:
            raise _refusal(self._call, failure) from failure

    def read_all(self) -> bytes:
        """Wait for all of the body."""
        try:
            return self._response.read_all()
        except HttpFailure as failure:
            raise _refusal(self._call, failure) from failure

    def close(self) -> None:
        """Let go of the connection; a second time does nothing."""
        self._response.close()


def _refusal(call: Call, failure: HttpFailure) -> HostFailure:
    # A deadline that passed on the wire ends the call, and is not the guest's to handle.
    call.lifetime.check()
    message = f"{failure.message}; {failure.hint}" if failure.hint else failure.message
    limit_bytes = None
    if call.grant.http is not None:
        limit_bytes = {
            str(Reason.REQUEST_TOO_LARGE): call.grant.http.max_request_bytes,
            str(Reason.RESPONSE_TOO_LARGE): call.grant.http.max_response_bytes,
        }.get(failure.code)
    return HostFailure(
        failure.kind,
        failure.code,
        message,
        request_sent=failure.request_sent,
        denied=failure.decision is not None,
        limit_bytes=limit_bytes,
    )
