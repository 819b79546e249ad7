"""The host services of a component that is being described: nothing is granted."""

from __future__ import annotations

import pytest

from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import (
    Request,
    SecretExists,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceReadPart,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceSize,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.services import NoServices

REQUESTS: tuple[Request[object], ...] = (
    WorkspaceRead("a"),
    WorkspaceReadPart("a", 0, 1),
    WorkspaceList(""),
    WorkspaceStat("a"),
    WorkspaceSize("a"),
    WorkspaceWrite("a", b"x"),
    WorkspaceCopy("a", "b"),
    WorkspaceMakeDirectory("a"),
    WorkspaceRemove("a"),
    WorkspaceRename("a", "b"),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_no_services_refuse_every_file_request(request_: Request[object]) -> None:
    host = NoServices()
    with pytest.raises(HostFailure) as caught:
        host.handle(request_)
    assert caught.value.denied
    assert not host.has_workspace and not host.handle(SecretExists("any"))
