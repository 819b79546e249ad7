"""A component under a grant: its package's metadata, the grants of its tools, and the names of its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.sandbox.border.conftest import StandIn
from wasmrt import Capabilities
from wasmrt.capabilities import ToolGrant, WorkspaceCapability
from wasmrt.core.effects import Effect
from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.model import Addition
from wasmrt.core.traits import OwnTerms
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.call import Backends, CallTarget
from wasmrt.sandbox.component import ToolSpec
from wasmrt.sandbox.guest.runner import GuestComponent

PROVIDER = "wasmrt:tool/provider@0.1.0"
AGENT = "near:agent/tool@0.3.0"
READ_LOGS = Addition(WorkspaceCapability.grant_list, '"logs"')
SCHEMA = {"type": "object", "maxProperties": 1}


def target(
    *own: ToolSpec,
    world: str = PROVIDER,
    grant: Capabilities | None = None,
    tools: Mapping[str, ToolSpec] | None = None,
    asked: Capabilities | None = None,
) -> CallTarget:
    component = cast(GuestComponent, StandIn(specs=own or [ToolSpec("one")], world=world))
    request: Callable[[], Capabilities] | None = None if asked is None else lambda: asked
    services = lambda _grant: Backends(LeakDetector())  # noqa: E731
    return CallTarget("disk", "d" * 64, component, grant or Capabilities.none(), services, tools, request)


def reading(*prefixes: str) -> Capabilities:
    return Capabilities.none().with_workspace_read(prefixes)


def writing(*prefixes: str) -> Capabilities:
    return Capabilities.none().with_workspace_write(prefixes)


# -- package metadata --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("note", ["read_only", "destructive", "network"])
def test_a_package_can_add_annotations_but_not_remove_them(note: str, own: bool, said: bool) -> None:
    component, package = ToolSpec("one", **{note: own}), ToolSpec("one", **{note: said})  # type: ignore[arg-type]
    spec = target(component, tools={"one": package}).specs["one"]
    notes = {name: getattr(spec, name) for name in ("read_only", "destructive", "network")}
    assert notes == {"read_only": False, "destructive": False, "network": False} | {note: own or said}


def test_the_schema_of_a_package_replaces_the_components_schema_and_problem() -> None:
    broken = ToolSpec("one", schema_problem="not JSON")
    assert target(broken, tools={"one": ToolSpec("one")}).specs["one"].schema_problem == "not JSON"
    spec = target(broken, tools={"one": ToolSpec("one", schema=SCHEMA)}).specs["one"]
    assert (spec.schema, spec.schema_problem) == (SCHEMA, "")


def test_params_are_checked_against_a_package_schema_or_a_binding_world_schema() -> None:
    package = {"one": ToolSpec("one")}
    assert [
        target(world=PROVIDER).checked, target(world=PROVIDER, tools=package).checked,
        target(world=AGENT).checked, target(world=AGENT, tools=package).checked,
    ] == [True, True, False, True]  # fmt: skip


@pytest.mark.parametrize(
    ("world", "spec", "is_known"),
    [
        (PROVIDER, ToolSpec("one"), True),
        (PROVIDER, ToolSpec("other"), False),
        (PROVIDER, ToolSpec("other", capability_id="disk.other"), False),
        (AGENT, ToolSpec("other"), False),
        (AGENT, ToolSpec("other", capability_id="disk.other"), True),
    ],
)
def test_a_package_lists_tools_of_the_component_or_its_context(world: str, spec: ToolSpec, is_known: bool) -> None:
    if is_known:
        assert target(world=world, tools={spec.name: spec}).specs == {spec.name: spec}
        return
    with pytest.raises(InvalidComponentError, match=f"a tool '{spec.name}' that the component does not have") as caught:
        target(world=world, tools={spec.name: spec})
    assert caught.value.hint == "the component has: one"


def test_the_context_has_the_operators_settings_and_no_conversation() -> None:
    settings = {"provider": "local"}
    own = target(tools={"one": ToolSpec("one", own=OwnTerms(settings=settings))})
    assert own.context("one", {"thread": 7}) == settings
    assert own.context("one", None) is not settings
    assert target().context("one", {"thread": 7}) == {"thread": 7}


# -- names -------------------------------------------------------------------------------------------------------------


def test_tool_names_include_the_component_unless_it_has_one_tool() -> None:
    assert target().get_name_in_grants("one") == "disk"
    assert target(ToolSpec("one"), ToolSpec("two")).get_name_in_grants("two") == "disk.two"
    assert target(ToolSpec("one"), ToolSpec("two")).get_name_in_grants("three") == "disk"
    by_context = {"list": ToolSpec("list", capability_id="disk.list")}
    assert target(world=AGENT, tools=by_context).get_name_in_grants("list") == "disk.list"


# -- grants of tools ---------------------------------------------------------------------------------------------------


def test_a_call_has_the_whole_grant_unless_something_narrows_it() -> None:
    several = Capabilities.none().with_tools([ToolGrant("one", Capabilities.none())])
    whole = target(grant=writing("notes", "logs"))
    assert whole.derive_grant("one").grant == writing("notes", "logs")
    assert whole.derive_grant("one", None, (("logs",),)).grant == writing("logs")
    assert whole.derive_grant("one", frozenset({Effect.READ_FILESYSTEM})).grant.workspace_write is None
    assert target(grant=several).derive_grant("one").grant == Capabilities.none()
    without = target(grant=reading("notes"))
    assert without.derive_grant("one", None, (("logs",),)) is without.derive_grant("one")


def test_effective_grants_are_cached_up_to_a_limit() -> None:
    whole = target(grant=writing("notes"))
    powers = [whole.derive_grant("one", None, ((f"notes/{number}",),)) for number in range(1024)]
    assert whole.derive_grant("one", None, (("notes/0",),)) is powers[0]
    assert whole.derive_grant("one", None, (("notes/1023",),)) is powers[1023]
    whole.derive_grant("one", None, (("notes/more",),))
    assert whole.derive_grant("one", None, (("notes/0",),)) is not powers[0]
    assert whole.derive_grant("one", None, (("notes/more",),)) is whole.derive_grant("one", None, (("notes/more",),))


def test_an_added_entry_applies_to_all_calls_of_only_its_tool() -> None:
    apart = Capabilities.none().with_tools([ToolGrant("one", Capabilities.none()), ToolGrant("two")])
    small = target(ToolSpec("one"), ToolSpec("two"), grant=apart)
    held = frozenset({Effect.READ_FILESYSTEM})
    before = [small.derive_grant(tool, effects).grant for tool in ("one", "two") for effects in (None, held)]
    assert before == [Capabilities.none()] * 4
    large = small.with_added_grant("one", [READ_LOGS])
    assert [large.derive_grant("one", effects).grant for effects in (None, held)] == [reading("logs")] * 2
    assert [large.derive_grant("two", effects).grant for effects in (None, held)] == [Capabilities.none()] * 2
    assert [small.derive_grant("one", effects).grant for effects in (None, held)] == [Capabilities.none()] * 2
    assert target().with_added_grant("one", [READ_LOGS]).derive_grant("one").grant == reading("logs")


def test_requested_but_ungranted_entries_are_an_amendment() -> None:
    assert target().find_amendment("one", READ_LOGS) is None
    assert target(asked=reading("notes")).find_amendment("one", READ_LOGS) is None
    assert target(asked=reading("logs")).find_amendment("one", READ_LOGS) == "workspace=logs"
    apart = replace(reading("logs"), tools=(ToolGrant("one", reading("logs")), ToolGrant("two")))
    assert target(asked=apart).find_amendment("one", READ_LOGS) == "tools=one"
    assert target(asked=apart).find_amendment("two", READ_LOGS) is None


def test_a_component_is_called_with_its_own_tool_name() -> None:
    by_context: dict[str, Any] = {"list": ToolSpec("list", capability_id="disk.list")}
    assert target(world=AGENT, tools=by_context).get_guest_name("list") == "one"
    assert target(ToolSpec("one"), ToolSpec("two")).get_guest_name("two") == "two"
