"""The sections of a capability file: the keys each may have, one declaration for the reader and the JSON Schema.

The kinds of fields that declare them are of use for other strict files as well.
"""

from __future__ import annotations

from wasmrt.capabilities.sections._beyond import HTTP_NUMBERS, WRITE_NUMBERS
from wasmrt.capabilities.sections._capabilities import capability_schema
from wasmrt.capabilities.sections._descriptive import SECTIONS
from wasmrt.capabilities.sections._fields import (
    INVALID,
    Anything,
    Flag,
    ListOf,
    MapOf,
    Number,
    ObjectSchema,
    Property,
    Text,
    nearest,
)
from wasmrt.capabilities.sections._json import Problems, child
from wasmrt.capabilities.sections._program_network import program_network_line, read_program_network
from wasmrt.capabilities.sections._read import Sections, read_oauth, read_sections

__all__ = [
    "HTTP_NUMBERS",
    "INVALID",
    "SECTIONS",
    "WRITE_NUMBERS",
    "Anything",
    "Flag",
    "ListOf",
    "MapOf",
    "Number",
    "ObjectSchema",
    "Problems",
    "Property",
    "Sections",
    "Text",
    "capability_schema",
    "child",
    "nearest",
    "program_network_line",
    "read_oauth",
    "read_program_network",
    "read_sections",
]
