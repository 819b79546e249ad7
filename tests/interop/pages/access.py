"""A tool that requests access, as recorded by the pipeline."""

from __future__ import annotations

from tests.interop.pages.site import Site
from wasmrt.agent.access import AccessRequest, Caller, DeniedAccess
from wasmrt.capabilities import WorkspaceCapability
from wasmrt.core.model import Addition


def asking(
    site: Site, *, tool: str = "reader", user: str = "alice", words: str = "may read notes/", client: str = ""
) -> AccessRequest:
    caller = Caller(
        user=user, trace="t1", session="s1", tool=tool, digest="d1", grant="g1", params_digest="p1", client=client
    )
    wish = DeniedAccess(
        addition=Addition(WorkspaceCapability.grant_list, '"notes/"'),
        sentences=(words,),
        refused=words,
        origins=(words,),
        params=words,
        call="c1",
    )
    made = site.access.ask(caller, wish)
    assert made is not None
    return made
