"""A tool's own description."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wasmrt.core.traits import NO_TERMS, OwnTerms

ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool of a component: name, description, JSON Schema of its params, annotations.

    A package says more of it than the component can: the id that its host puts into the context of a call, the schema
    of its result, a document for models, and how it may be used.

    `problems` says in sentences what was wrong with the component's own words; such a tool still runs.
    `schema_problem` is the one of them for which its schema was not taken, so that any object is; empty where there is
    none. Such a tool is not installed.
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
    """The id that a call's context names it by; empty where the component tells its tools apart itself."""
    output_schema: dict[str, Any] | None = None
    prompt: str = ""
    """A document for models, in Markdown."""
    permission: str = ""
    """`allow`, `ask` or `deny`, as its package asks for; empty where nobody said."""
    hidden: bool = False
    """True for a tool that is not for models."""
    origins: tuple[tuple[str, str], ...] = ()
    """Who may call it, and how that is admitted, as its package says."""
    own: OwnTerms = NO_TERMS
    """Terms of a tool that comes with the program; never those of another."""

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
        """Return what only a package can say of it; nothing without one."""
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
