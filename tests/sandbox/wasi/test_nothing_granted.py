"""A component that is only asked what it is meets a host that grants nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wasmrt.sandbox.guest.services import HostFailure, NoServices


@pytest.mark.parametrize(
    "deed",
    [
        lambda host: host.workspace_read("a"),
        lambda host: host.workspace_list(""),
        lambda host: host.workspace_stat("a"),
        lambda host: host.workspace_size("a"),
        lambda host: host.workspace_write("a", b"x"),
        lambda host: host.workspace_copy("a", "b"),
        lambda host: host.workspace_make_directory("a"),
        lambda host: host.workspace_remove("a"),
        lambda host: host.workspace_rename("a", "b"),
    ],
    ids=["read", "list", "stat", "size", "write", "copy", "make directory", "remove", "rename"],
)
def test_a_host_that_grants_nothing_refuses_every_deed_on_files(deed: Callable[[NoServices], object]) -> None:
    host = NoServices()
    with pytest.raises(HostFailure) as caught:
        deed(host)
    assert caught.value.denied
    assert not host.has_workspace and not host.secret_exists("any")
