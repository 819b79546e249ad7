"""Declare all sections of a capability file, and write the JSON Schema.

Files may use the key names of wasmrt or of IronClaw. wasmrt writes its own key names.
"""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities._fields import ListOf, MapOf, ObjectSchema, Property, Text
from wasmrt.capabilities.kinds import KINDS
from wasmrt.capabilities.kinds._limits import LIMITS
from wasmrt.capabilities.model import read_tool_name
from wasmrt.capabilities.sections._descriptive import ABOUT, SECTIONS
from wasmrt.core.effects import Effect

_KINDS = {kind.section: kind.file_section for kind in KINDS}
_TOOL = ObjectSchema(
    _KINDS
    | {
        "credentials": Property(
            field=ListOf(item=Text(max_length=128)),
            about="Names in `http.credentials` that this tool uses.",
        ),
        "effects": Property(
            field=ListOf(item=Text(choices=tuple(Effect))), about="Effects that calls of the tool can have."
        ),
    }
)
CAPABILITIES = _KINDS | {
    "limits": LIMITS,
    "tools": Property(
        field=MapOf(item=_TOOL, key=Text(max_length=128, pattern=r"^[!-~]+$", check=read_tool_name)),
        about="Capabilities of single tools; unlisted tools then have none.",
    ),
}
NESTED = "capabilities"
ROOT = ObjectSchema(
    CAPABILITIES
    | ABOUT
    | SECTIONS
    | {
        NESTED: Property(
            field=ObjectSchema(CAPABILITIES | ABOUT | SECTIONS),
            about="An object with the same sections, as an alternative to the top level.",
        )
    }
)


def capability_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of capability files. The schema accepts some files that `parse` rejects."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wasmrt capability file",
        "description": "The capabilities that a tool requests. A missing section requests nothing.",
    } | ROOT.schema()
