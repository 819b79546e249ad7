"""Traits: values derived from effects, which more effects or rules never loosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt import Confirmation, Effect, Risk, SafetyTier, SubagentAccess, ToolDomain, Traits
from wasmrt.capabilities import (
    METHODS,
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    WorkspaceWriteCapability,
    effects_of,
    within_effects,
)
from wasmrt.core.effects import READING
from wasmrt.core.traits import TraitRestrictions

effect_sets = st.frozensets(st.sampled_from(list(Effect)))
DERIVED: dict[str, Callable[[Traits], int]] = {
    "tier": lambda traits: traits.tier().order,
    "risk": lambda traits: traits.risk().order,
    "confirmation": lambda traits: traits.confirmation().order,
    "subagent_access": lambda traits: traits.subagent_access.order,
    "network_outbound": lambda traits: int(traits.network_outbound),
    "not read_only": lambda traits: int(not traits.read_only),
    "domain": lambda traits: int(traits.domain is ToolDomain.CONTAINER),
    "may write": lambda traits: int(not traits.annotations()["readOnlyHint"]),
    "may destroy": lambda traits: int(traits.annotations()["destructiveHint"]),
    "not idempotent": lambda traits: int(not traits.annotations()["idempotentHint"]),
    "open world": lambda traits: int(traits.annotations()["openWorldHint"]),
}
tightenings = st.builds(
    TraitRestrictions,
    tier=st.none() | st.sampled_from(SafetyTier),
    risk=st.none() | st.sampled_from(Risk),
    confirmation=st.none() | st.sampled_from(Confirmation),
    subagent_access=st.none() | st.sampled_from(SubagentAccess),
    network_outbound=st.booleans(),
)


@pytest.mark.parametrize("derived", DERIVED)
@given(few=effect_sets, more=effect_sets)
def test_more_effects_never_give_a_less_strict_result(
    derived: str, few: frozenset[Effect], more: frozenset[Effect]
) -> None:
    derive = DERIVED[derived]
    assert derive(Traits(effects=few)) <= derive(Traits(effects=few | more))


@pytest.mark.parametrize("derived", DERIVED)
@given(effects=effect_sets, tightening=tightenings)
def test_an_operators_rule_never_loosens_traits(
    derived: str, effects: frozenset[Effect], tightening: TraitRestrictions
) -> None:
    derive = DERIVED[derived]
    assert derive(Traits(effects=effects)) <= derive(Traits(effects=effects).tightened(tightening))


@pytest.mark.ci("slow")
@given(whole=effect_sets, call=effect_sets, tightening=tightenings)
def test_more_effects_never_avoid_confirmation(
    whole: frozenset[Effect], call: frozenset[Effect], tightening: TraitRestrictions
) -> None:
    traits = Traits(effects=whole | call).tightened(tightening)
    if traits.needs_confirmation(call):
        assert traits.needs_confirmation(whole | call)


@pytest.mark.parametrize(
    ("effects", "tier", "risk", "confirmation"),
    [
        ([], SafetyTier.READ_ONLY, Risk.LOW, Confirmation.NEVER),
        (["read-filesystem"], SafetyTier.READ_ONLY, Risk.LOW, Confirmation.NEVER),
        (["network", "use-secret"], SafetyTier.READ_ONLY, Risk.LOW, Confirmation.NEVER),
        (["write-filesystem"], SafetyTier.SIDE_EFFECTING, Risk.MEDIUM, Confirmation.IF_DESTRUCTIVE),
        (["delete-filesystem"], SafetyTier.SIDE_EFFECTING, Risk.MEDIUM, Confirmation.IF_DESTRUCTIVE),
        (["network", "external-write"], SafetyTier.SIDE_EFFECTING, Risk.MEDIUM, Confirmation.IF_DESTRUCTIVE),
        (["spawn-process"], SafetyTier.PRIVILEGED, Risk.HIGH, Confirmation.ALWAYS),
        (["financial"], SafetyTier.PRIVILEGED, Risk.HIGH, Confirmation.ALWAYS),
        (None, SafetyTier.PRIVILEGED, Risk.HIGH, Confirmation.ALWAYS),
    ],
)
def test_tier_risk_and_confirmation_follow_from_effects(
    effects: Any, tier: SafetyTier, risk: Risk, confirmation: Confirmation
) -> None:
    traits = Traits.of(effects)
    assert (traits.tier(), traits.risk(), traits.confirmation()) == (tier, risk, confirmation)


def test_effects_may_be_a_one_shot_iterator() -> None:
    traits = Traits.of((effect for effect in ["external-write"]), {"list": []})
    assert Effect.EXTERNAL_WRITE in traits.effects
    assert Effect.EXTERNAL_WRITE in traits.actions[0].effects


@pytest.mark.parametrize(
    ("effects", "enforced", "reading", "access"),
    [
        (["network"], False, [], SubagentAccess.FULL),
        (["external-write"], False, ["network"], SubagentAccess.DENIED),
        (["external-write"], True, ["network"], SubagentAccess.READ_ONLY),
        (["external-write"], True, ["use-secret"], SubagentAccess.DENIED),
        (["external-write"], True, [], SubagentAccess.DENIED),
        (None, False, [], SubagentAccess.DENIED),
    ],
)
def test_a_sub_agent_has_read_only_tools(
    effects: Any, enforced: bool, reading: list[str], access: SubagentAccess
) -> None:
    traits = Traits.of(effects)
    reads = frozenset(map(Effect, reading))
    assert Traits(effects=traits.effects, enforced=enforced, reading=reads).subagent_access is access


def test_a_sub_agent_has_the_read_only_actions_of_a_tool() -> None:
    traits = Traits.of(None, {"list": ["network"], "send": ["external-write"]})
    assert traits.subagent_access is SubagentAccess.READ_ONLY
    assert [(action.name, action.read_only) for action in traits.actions] == [("list", True), ("send", False)]
    assert traits.capabilities(built_in=True).network_outbound


# -- effects of a grant ------------------------------------------------------------------------------------------------

endpoints = st.builds(
    lambda host, methods: EndpointPattern.host(host).with_methods(*methods) if methods else EndpointPattern.host(host),
    st.sampled_from(["a.example", "*.b.example"]),
    st.lists(st.sampled_from(METHODS), max_size=3),
)
credential = CredentialMapping(secret_name="key", location=CredentialLocation.bearer(), host_patterns=("a.example",))
grants = st.builds(
    lambda http, keys, workspace, secrets, tools, writing: Capabilities(
        http=HttpCapability(tuple(http), (credential,) if keys else ()) if http is not None else None,
        workspace_read=None if workspace is None else Capabilities.none().with_workspace_read(workspace).workspace_read,
        secrets=None if secrets is None else Capabilities.none().with_secrets(secrets).secrets,
        tool_invoke=None if tools is None else Capabilities.none().with_tool_invoke(tools).tool_invoke,
        workspace_write=writing,
    ),
    st.none() | st.lists(endpoints, max_size=3),
    st.booleans(),
    st.none() | st.lists(st.sampled_from(["", "notes/"]), max_size=2),
    st.none() | st.lists(st.sampled_from(["key", "other*"]), max_size=2),
    st.none() | st.dictionaries(st.sampled_from(["one", "two"]), st.just("tool"), max_size=2),
    st.none()
    | st.builds(
        WorkspaceWriteCapability,
        st.lists(st.sampled_from(["", "out/"]), max_size=2).map(tuple),
        remove=st.booleans(),
    ),
)


@given(grant=grants, effects=effect_sets)
def test_a_grant_limited_to_effects_has_no_other_effects(grant: Capabilities, effects: frozenset[Effect]) -> None:
    held = within_effects(grant, effects)
    assert effects_of(held) <= effects & effects_of(grant)
    assert within_effects(held, effects) == held


@given(grant=grants)
def test_a_grant_limited_to_all_its_effects_stays_equivalent(grant: Capabilities) -> None:
    assert effects_of(within_effects(grant, effects_of(grant))) == effects_of(grant)


@given(
    grant=grants, url=st.sampled_from(["https://a.example/x", "https://x.b.example/"]), method=st.sampled_from(METHODS)
)
def test_a_grant_limited_to_reading_sends_only_get_and_head(grant: Capabilities, url: str, method: str) -> None:
    held = within_effects(grant, READING)
    allowed = held.explain_http(method, url).allowed
    assert allowed == (method in ("GET", "HEAD") and grant.explain_http(method, url).allowed)
