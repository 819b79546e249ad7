"""The interface between the loop and the tools of a build."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Outcome(NamedTuple):
    """The outcome of one call."""

    ok: bool
    text: str
    """The text for the model."""
    result: Any = None
    """The result as JSON data; None if the call failed."""


class Workbench(Protocol):
    """The tools of one build. Each call runs through a registry's pipeline, and writes a receipt."""

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools that the model may call."""

    def call(self, name: str, arguments: Any) -> Outcome:
        """Run a call of the model: `arguments` is an object or its JSON text. Only offered tools run."""

    def step(self, name: str, params: dict[str, Any]) -> Outcome:
        """Run one of the builder's steps: `build_project`, `validate_project`, `test_project`, or `tool_install`."""
