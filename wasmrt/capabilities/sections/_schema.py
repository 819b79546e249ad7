"""The sections of a capability file, declared once for the parser and the JSON Schema.

wasmrt's and IronClaw's names of keys are both accepted; the first name of each key is the one written.
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
            field=ListOf(item=Text(max_length=128)), about="Names in http.credentials of the component that it uses."
        ),
        "effects": Property(field=ListOf(item=Text(choices=tuple(Effect))), about="The effects of its calls."),
    }
)
CAPABILITIES = _KINDS | {
    "limits": LIMITS,
    "tools": Property(
        field=MapOf(item=_TOOL, key=Text(max_length=128, pattern=r"^[!-~]+$", check=read_tool_name)),
        about="Each tool's part of all this. With this section, a tool that is not named has no capability.",
    ),
}
NESTED = "capabilities"
ROOT = ObjectSchema(
    CAPABILITIES
    | ABOUT
    | SECTIONS
    | {
        NESTED: Property(
            field=ObjectSchema(CAPABILITIES | ABOUT | SECTIONS), about="The same sections, one level down."
        )
    }
)


def capability_schema() -> dict[str, Any]:
    """Return the capability file's JSON Schema (2020-12): it accepts all that `parse` does, and a little more."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wasmrt capability file",
        "description": "What a tool asks for. An absent section asks for nothing.",
    } | ROOT.schema()
