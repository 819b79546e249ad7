"""Convert the tools that a package lists to the text that the catalog stores, and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from wasmrt.sandbox.component import ToolSpec


def dump_tools(tools: tuple[ToolSpec, ...]) -> str:
    """Return the tools as JSON text. Equal tools result in equal text."""
    return json.dumps([_select_changed(tool) for tool in tools], ensure_ascii=False)


def load_tools(text: str) -> tuple[ToolSpec, ...]:
    """Return the tools from the text of `dump_tools`."""
    return tuple(map(load_tool, json.loads(text)))


def _select_changed(tool: ToolSpec) -> dict[str, Any]:
    plain = ToolSpec(tool.name)
    values = {field.name: getattr(tool, field.name) for field in fields(tool)}
    return {name: value for name, value in values.items() if name == "name" or value != getattr(plain, name)}


def load_tool(values: dict[str, Any]) -> ToolSpec:
    """Return a tool from its values in the text of `dump_tools`."""
    values["problems"] = tuple(values.get("problems", ()))
    values["origins"] = tuple((origin, gate) for origin, gate in values.get("origins", ()))
    return ToolSpec(**values)
