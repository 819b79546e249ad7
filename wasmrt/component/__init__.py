"""What a component's bytes and WIT types are: header, sections, types, values, docs. Pure."""

from __future__ import annotations

from wasmrt.component._docs import (
    DOCS_SECTION,
    OWN_DOCS_SECTION,
    doc_comments,
)
from wasmrt.component._functions import functions_by_interface, qualified_names
from wasmrt.component._header import (
    check_header,
)
from wasmrt.component._producers import (
    producers,
)
from wasmrt.component._spec import ANY_OBJECT, ToolSpec
from wasmrt.component._text import (
    plain,
)
from wasmrt.component._types import (
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
    walk,
)
from wasmrt.component._values import (
    Case,
    Err,
    Ok,
    Some,
)

__all__ = [
    "ANY_OBJECT",
    "DOCS_SECTION",
    "OWN_DOCS_SECTION",
    "Case",
    "ComponentType",
    "EnumType",
    "Err",
    "FlagsType",
    "FuncType",
    "InterfaceType",
    "ListType",
    "Ok",
    "OptionType",
    "Primitive",
    "RecordType",
    "ResourceRef",
    "ResultType",
    "Some",
    "ToolSpec",
    "TupleType",
    "VariantType",
    "WitType",
    "check_header",
    "doc_comments",
    "functions_by_interface",
    "plain",
    "producers",
    "qualified_names",
    "walk",
]
