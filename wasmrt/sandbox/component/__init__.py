"""The format of components, and WIT types: header, surface, types, values, doc comments, producers. Pure.

Nothing here compiles or runs anything, and no bytes make it raise another error than a `ComponentError`.
"""

from __future__ import annotations

from wasmrt.sandbox.component._binary import (
    COMPONENT,
    CORE_MODULE,
    Reader,
    encode_custom_section,
    encode_section,
    encode_u32,
    read_sections,
)
from wasmrt.sandbox.component._docs import DOCS_SECTION, OWN_DOCS_SECTION, Docs, doc_comments, doc_of
from wasmrt.sandbox.component._functions import functions_by_interface, qualified_names
from wasmrt.sandbox.component._header import CORE_MODULE_HINT, HEADER, TEXT_HINT, check_header
from wasmrt.sandbox.component._producers import producers
from wasmrt.sandbox.component._spec import ANY_OBJECT, ToolSpec
from wasmrt.sandbox.component._surface import Surface, SurfaceItem, read_surface
from wasmrt.sandbox.component._text import cut_line, last_lines, printable, printable_line
from wasmrt.sandbox.component._types import (
    PRIMITIVES,
    ComponentType,
    EnumType,
    FlagsType,
    FuncType,
    InterfaceType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResourceRef,
    ResultType,
    TupleType,
    VariantType,
    WitType,
    has_unbounded_lift,
    walk,
)
from wasmrt.sandbox.component._values import Case, Err, Ok, Some, is_nested_option

__all__ = [
    "ANY_OBJECT",
    "COMPONENT",
    "CORE_MODULE",
    "CORE_MODULE_HINT",
    "DOCS_SECTION",
    "HEADER",
    "OWN_DOCS_SECTION",
    "PRIMITIVES",
    "TEXT_HINT",
    "Case",
    "ComponentType",
    "Docs",
    "EnumType",
    "Err",
    "FlagsType",
    "FuncType",
    "InterfaceType",
    "ListType",
    "Ok",
    "OptionType",
    "Primitive",
    "Reader",
    "RecordType",
    "ResourceRef",
    "ResultType",
    "Some",
    "Surface",
    "SurfaceItem",
    "ToolSpec",
    "TupleType",
    "VariantType",
    "WitType",
    "check_header",
    "cut_line",
    "doc_comments",
    "doc_of",
    "encode_custom_section",
    "encode_section",
    "encode_u32",
    "functions_by_interface",
    "has_unbounded_lift",
    "is_nested_option",
    "last_lines",
    "printable",
    "printable_line",
    "producers",
    "qualified_names",
    "read_sections",
    "read_surface",
    "walk",
]
