"""A tool's own description."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool of a component: name, description, JSON Schema of its params, annotations.

    `problems` says in sentences what was wrong with the component's own words; such a tool still runs.
    """

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=lambda: dict(ANY_OBJECT))
    read_only: bool = False
    destructive: bool = False
    network: bool = False
    problems: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "schema": self.schema,
            "annotations": {
                "read_only": self.read_only,
                "destructive": self.destructive,
                "network": self.network,
            },
            "problems": list(self.problems),
        }
