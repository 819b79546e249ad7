"""The tool contract: objects that a registry accepts or rejects at registration."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from wasmrt import ConfigurationError, Tool, ToolContext, ToolDefaults, ToolOutput, ToolRegistry, Traits
from wasmrt.agent.builtin.host_tool import HostTool, Plan
from wasmrt.agent.registry import ReadOnlyToolWrapper, tool
from wasmrt.agent.registry._tool import _MEMBERS


class Plain(ToolDefaults):
    """A tool with the members that have no default."""

    name, description = "plain", "Does nothing."
    schema: ClassVar[dict[str, Any]] = {"type": "object"}
    traits = Traits.of([])
    aexecute = None

    def execute(self, params: Any, context: ToolContext) -> ToolOutput:
        return ToolOutput(result="done")


class Helpful(Plain):
    """A tool with additional members that are not part of the contract."""

    owner, identity, world = "ann", 7, "here"

    def close(self) -> None:
        """Close nothing."""

    def _requires_aproval(self) -> None:
        """Stay private."""


class Misspelled(Plain):
    """A tool whose author meant `requires_approval`."""

    def requires_aproval(self, params: Any) -> bool:
        return True


def independent() -> Any:
    """Return a tool that satisfies the contract and does not derive from `ToolDefaults`."""
    members = {name: vars(ToolDefaults).get(name, vars(Plain).get(name)) for name in _MEMBERS}
    return type("Independent", (), members)()


def test_defaults_cover_every_member_but_five() -> None:
    missing = {name for name in _MEMBERS if name not in vars(ToolDefaults)}
    assert missing == {"name", "description", "schema", "traits", "execute"}


@pytest.mark.parametrize("made", [Plain(), Helpful(), independent()])
def test_tools_with_helpers_and_tools_without_the_base_class_are_accepted(made: Tool) -> None:
    assert isinstance(made, Tool)
    registry = ToolRegistry()
    registry.register(made)
    assert registry.execute("plain").result == "done"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("requires_aproval", "requires_approval"),
        ("foriegn", "untrusted_result"),
        ("foreign", "untrusted_result"),
        ("by_hand", "manual_command"),
        ("destination", "destinations"),
        ("untrusted_results", "untrusted_result"),
        ("Preview", "preview"),
        ("is_asynch", "is_async"),
        ("output_shema", "output_schema"),
        ("timeout_second", "timeout_seconds"),
    ],
)
def test_misspelled_members_are_rejected_at_registration(wrong: str, meant: str) -> None:
    made = Plain()
    setattr(made, wrong, lambda params: True)
    registry = ToolRegistry()
    with pytest.raises(ConfigurationError, match=f"Plain.{wrong} is not a member of a tool: did you mean {meant}?"):
        registry.register(made)
    assert registry.all_names() == []


def test_misspelled_methods_are_rejected_in_replaced_tools() -> None:
    registry = ToolRegistry()
    registry.register(Plain())
    with pytest.raises(ConfigurationError, match="requires_aproval"):
        registry.replace(Misspelled())
    assert registry.execute("plain").result == "done"


@pytest.mark.parametrize("missing", _MEMBERS)
def test_missing_members_are_named(missing: str) -> None:
    made = independent()
    delattr(type(made), missing)
    with pytest.raises(ConfigurationError, match=f"is not a tool: it has no {missing}"):
        ToolRegistry().register(made)


def test_every_kind_of_tool_satisfies_the_contract() -> None:
    @tool(effects=[])
    def function() -> str:
        """Answer."""
        return "x"

    host = HostTool("host", "Answers.", {}, lambda params, context: "x")
    for made in (function, host, ReadOnlyToolWrapper.wrap(host)):
        assert isinstance(made, Tool)


def test_the_type_checker_rejects_invalid_tools() -> None:
    """Mypy reads these lines: an ignored error that does not occur fails the check."""

    class Partial:
        name = description = ""
        schema: ClassVar[dict[str, Any]] = {}
        traits = Traits.of([])

        def execute(self, params: Any, context: ToolContext) -> ToolOutput:
            return ToolOutput(result=None)

    registry = ToolRegistry()
    with pytest.raises(ConfigurationError):
        registry.register(Partial())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        HostTool("x", "", {}, plan=lambda params: Plan("", lambda _: None), untrustd=bool)  # type: ignore[call-arg]
    registry.register(Plain())
    with pytest.raises(AttributeError):
        registry.get("plain").requires_aproval({})  # type: ignore[attr-defined]
