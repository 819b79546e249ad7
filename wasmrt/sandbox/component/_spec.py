"""The description of a tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wasmrt.core.traits import NO_TERMS, OwnTerms

ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a component's tool: name, text, JSON Schema of its params, and annotations.

    If the tool belongs to a package, the package can add more: the ID that the host puts into a call's context, the
    schema of the result, a document for models, and rules for the tool's use.

    `problems` lists errors in the component's own description; a tool with such errors still runs. `schema_problem` is
    the reason why the component's schema was replaced by a schema that accepts any object, or empty if the schema was
    not replaced. A tool with a `schema_problem` is not installed.
    """

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=lambda: dict(ANY_OBJECT))
    read_only: bool = False
    destructive: bool = False
    network: bool = False
    problems: tuple[str, ...] = ()
    schema_problem: str = ""
    capability_id: str = ""
    """The ID of the tool in a call's context; empty if the component needs no ID to distinguish its tools."""
    output_schema: dict[str, Any] | None = None
    prompt: str = ""
    """A document for models, in Markdown."""
    permission: str = ""
    """The permission that the package requests: `allow`, `ask` or `deny`; empty if it requests none."""
    hidden: bool = False
    """True if the tool is not offered to models."""
    origins: tuple[tuple[str, str], ...] = ()
    """Pairs of an allowed caller and the way in which the caller is admitted, as specified by the package."""
    own: OwnTerms = NO_TERMS
    """The terms of use of a tool that is bundled with wasmrt. They are never set for other tools."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "schema": self.schema,
            "annotations": {"read_only": self.read_only, "destructive": self.destructive, "network": self.network},
            "problems": list(self.problems),
            "schema_problem": self.schema_problem,
        } | self.packaged()

    def packaged(self) -> dict[str, Any]:
        """Return the fields that only a package can set, or an empty dict if the tool is not in a package."""
        if not self.capability_id:
            return {}
        return {
            "capability_id": self.capability_id,
            "output_schema": self.output_schema,
            "prompt": self.prompt,
            "permission": self.permission,
            "hidden": self.hidden,
            "origins": dict(self.origins),
        }
