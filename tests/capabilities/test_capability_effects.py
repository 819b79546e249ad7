"""The effects of a grant, part by part, and the remaining part if an effect is not allowed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
)
from wasmrt.capabilities._effects import effects_of, iter_reachable, within_effects
from wasmrt.core.effects import Effect

KEY = CredentialMapping(secret_name="key", location=CredentialLocation.bearer(), host_patterns=("a.org",))


def http(*methods: str, credentials: tuple[CredentialMapping, ...] = ()) -> Capabilities:
    return Capabilities(http=HttpCapability((EndpointPattern("a.org", methods=methods),), credentials))


@pytest.mark.parametrize(
    ("grant", "effects"),
    [
        (Capabilities.none(), set()),
        (http("GET"), {Effect.NETWORK}),
        (http("GET", "HEAD"), {Effect.NETWORK}),
        (http("GET", "POST"), {Effect.NETWORK, Effect.EXTERNAL_WRITE}),
        (http("OPTIONS"), {Effect.NETWORK, Effect.EXTERNAL_WRITE}),
        (http(), {Effect.NETWORK, Effect.EXTERNAL_WRITE}),
        (http("GET", credentials=(KEY,)), {Effect.NETWORK, Effect.USE_SECRET}),
        (Capabilities(http=HttpCapability(credentials=(KEY,))), set()),
        (Capabilities(workspace_read=WorkspaceCapability(("a/",))), {Effect.READ_FILESYSTEM}),
        (Capabilities(workspace_read=WorkspaceCapability()), set()),
        (Capabilities(workspace_write=WorkspaceWriteCapability(("a/",))), {Effect.WRITE_FILESYSTEM}),
        (
            Capabilities(workspace_write=WorkspaceWriteCapability(("a/",), remove=True)),
            {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM},
        ),
        (Capabilities(workspace_write=WorkspaceWriteCapability(remove=True)), set()),
        (Capabilities(secrets=SecretsCapability(("key",))), {Effect.USE_SECRET}),
        (Capabilities(secrets=SecretsCapability()), set()),
        (Capabilities(tool_invoke=ToolInvokeCapability((("say", "speaker"),))), {Effect.INVOKE_TOOL}),
        (Capabilities(tool_invoke=ToolInvokeCapability()), set()),
    ],
)
def test_a_grant_has_the_effects_of_its_parts(grant: Capabilities, effects: set[Effect]) -> None:
    assert effects_of(grant) == effects


WHOLE = Capabilities(
    http=HttpCapability((EndpointPattern("a.org"),), (KEY,)),
    workspace_read=WorkspaceCapability(("a/",)),
    workspace_write=WorkspaceWriteCapability(("b/",), remove=True),
    secrets=SecretsCapability(("key",)),
    tool_invoke=ToolInvokeCapability((("say", "speaker"),)),
)


@pytest.mark.parametrize("effect", sorted(effects_of(WHOLE)))
def test_removing_an_effect_removes_exactly_the_parts_that_have_it(effect: Effect) -> None:
    all_of_it = effects_of(WHOLE)
    left = within_effects(WHOLE, all_of_it - {effect})
    lost = {effect}
    if effect is Effect.NETWORK:
        lost |= {Effect.EXTERNAL_WRITE}
    if effect is Effect.WRITE_FILESYSTEM:
        lost |= {Effect.DELETE_FILESYSTEM}
    assert effects_of(left) == all_of_it - lost
    assert within_effects(WHOLE, all_of_it) == WHOLE
    assert effects_of(within_effects(WHOLE, frozenset({effect}))) <= {effect}


def test_requests_lose_their_credentials_if_secrets_are_not_allowed() -> None:
    left = within_effects(WHOLE, effects_of(WHOLE) - {Effect.USE_SECRET}).http
    assert left is not None and left.credentials == () and left.allowlist == (EndpointPattern("a.org"),)
    kept = within_effects(WHOLE, effects_of(WHOLE) - {Effect.EXTERNAL_WRITE}).http
    assert kept is not None and [each.secret_name for each in kept.credentials] == ["key"]


def test_a_read_only_grant_keeps_get_and_head_and_drops_other_entries() -> None:
    entries = (EndpointPattern("a.org"), EndpointPattern("b.org", methods=("HEAD", "PUT")),
               EndpointPattern("c.org", methods=("POST",)))  # fmt: skip
    left = within_effects(Capabilities(http=HttpCapability(entries)), frozenset({Effect.NETWORK})).http
    assert left is not None
    assert [(entry.host_pattern, entry.methods) for entry in left.allowlist] == [
        ("a.org", ("GET", "HEAD")),
        ("b.org", ("HEAD",)),
    ]


class Prepared(NamedTuple):
    capabilities: Capabilities


def test_every_callable_tool_is_listed_once_even_in_a_cycle() -> None:
    def invoking(**aliases: str) -> Capabilities:
        return Capabilities(tool_invoke=ToolInvokeCapability(tuple(aliases.items())))

    tools = {
        "one": Prepared(invoking(back="start", on="two")),
        "two": Prepared(invoking(again="one", self="two", gone="three")),
        "start": Prepared(invoking(a="one")),
    }
    told = [name for name, _ in iter_reachable(invoking(a="one", b="one", c="two"), tools.get)]
    assert sorted(told) == ["one", "start", "two"]
    assert next(tool for _, tool in iter_reachable(invoking(a="two"), tools.get)) is tools["two"]
    assert list(iter_reachable(Capabilities.none(), tools.get)) == []
