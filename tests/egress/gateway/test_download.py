"""Downloads of a file that a model chose: every server response results in the file or in an error with a reason."""

from __future__ import annotations

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from wasmrt.core.errors import SourceError
from wasmrt.egress.gateway import download

from .world import HOST, MakeWorld, World


def fetched(w: World, path: str = "/") -> bytes:
    hosts = (f"{HOST}:{w.server.port}",)
    return download(w.gateway, w.url(path), hosts, name="fetcher", user="ann", max_bytes=1000)


def moved(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    """Redirect `/3` to `/2`, and so on until `/0`, which is the file."""
    left = int(request.target[1:])
    if not left:
        return http_response(b"the file")
    return http_response(b"elsewhere", status=302, headers=(("Location", f"/{left - 1}"),))


def test_redirects_are_followed_up_to_the_limit(world: MakeWorld) -> None:
    w = world(moved)
    assert fetched(w, "/3") == b"the file"
    assert len(w.server.requests) == 4
    with pytest.raises(SourceError, match="more than 3 redirects") as caught:
        fetched(w, "/4")
    assert caught.value.hint == "use the final address"
    assert [request.target for request in w.server.requests[4:]] == ["/4", "/3", "/2", "/1"]


@pytest.mark.parametrize(
    ("status", "headers"),
    [(404, ()), (500, ()), (201, ()), (302, ()), (300, (("Location", "/0"),)), (204, (("Location", "/0"),))],
)
def test_other_responses_are_errors(world: MakeWorld, status: int, headers: tuple[tuple[str, str], ...]) -> None:
    w = world(lambda request, connection: http_response(status=status, headers=headers))
    with pytest.raises(SourceError, match=f"the server returned status {status}"):
        fetched(w)
    assert len(w.server.requests) == 1
