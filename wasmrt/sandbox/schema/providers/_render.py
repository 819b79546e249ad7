"""Render a tool for a model provider: OpenAI, Anthropic, Gemini or MCP.

For all providers the top level is a plain object, without oneOf, anyOf, allOf, enum or not, and the parts are cleaned.
A rendered schema may be less precise than the tool's own schema, but does not forbid ordinary calls. Calls are
checked against the tool's own schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from wasmrt.core.errors import ConfigurationError, InvalidComponentError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES
from wasmrt.core.names import is_offered_name
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._document import SchemaError, read_schema
from wasmrt.sandbox.schema._references import inline_references
from wasmrt.sandbox.schema.providers._clean import clean
from wasmrt.sandbox.schema.providers._flatten import flatten
from wasmrt.sandbox.schema.providers._gemini import for_gemini
from wasmrt.sandbox.schema.providers._strict import strict_problem, tighten

Provider = Literal["openai", "anthropic", "gemini", "mcp"]

_MAX_OPENAI_DESCRIPTION_BYTES = 1024
_DESCRIPTION_BYTES = {"openai": _MAX_OPENAI_DESCRIPTION_BYTES} | dict.fromkeys(
    ("anthropic", "gemini", "mcp"), MAX_DESCRIPTION_BYTES
)
"""Maximum size of a description, including the document for models."""


def render(
    tool_name: str,
    description: str,
    schema: Mapping[str, Any],
    provider: Provider,
    *,
    strict: bool = False,
    prompt: str = "",
) -> dict[str, Any]:
    """Return the declaration of a tool in a provider's format.

    The formats are OpenAI's `tools` entry (chat completions), Anthropic's tool, Gemini's `FunctionDeclaration`, and
    MCP's `Tool`. `strict` selects OpenAI's structured mode: every property is required (an optional one may be null),
    no other property is allowed, and only supported keywords are used; `coerce` drops the nulls of absent fields.
    `prompt` is a document for models, which is appended to the description if both fit into the limit.

    Raises:
        ConfigurationError: the name is not `[a-zA-Z0-9_-]{1,64}`, the provider is unknown, or there is no strict form.
        InvalidComponentError: the schema is invalid.
    """
    if not is_offered_name(tool_name):
        raise ConfigurationError(
            f"invalid tool name: {printable_line(tool_name, 80)!r}", hint="use 1 to 64 of a-z, A-Z, 0-9, _ and -"
        )
    params = provider_schema(schema, provider, strict=strict)
    described = f"{description}\n\n{prompt}" if prompt else description
    if len(described.encode("utf-8", "replace")) <= _DESCRIPTION_BYTES[provider]:
        description = described
    if provider == "anthropic":
        return {"name": tool_name, "description": description, "input_schema": params}
    if provider == "gemini":
        return {"name": tool_name, "description": description} | ({"parameters": params} if params else {})
    if provider == "mcp":
        return {"name": tool_name, "description": description, "inputSchema": params}
    if not (description is described and prompt):
        description = printable_line(description, _MAX_OPENAI_DESCRIPTION_BYTES - 3)
    function: dict[str, Any] = {"name": tool_name, "description": description, "parameters": params}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def provider_schema(schema: Mapping[str, Any], provider: Provider, *, strict: bool = False) -> dict[str, Any]:
    """Return only the schema of a tool's params, in the form used by `render`.

    Raises:
        ConfigurationError, InvalidComponentError: see `render`.
    """
    if provider not in _DESCRIPTION_BYTES or (strict and provider != "openai"):
        raise ConfigurationError(
            f"no {'strict ' if strict else ''}rendering for {printable_line(provider, 40)}",
            hint="use openai, anthropic, gemini or mcp; only openai supports strict",
        )
    try:
        flat = flatten(inline_references(read_schema(schema), repeats=(1, 0)))
    except SchemaError as error:
        raise InvalidComponentError(f"the tool's schema {error}", hint="ask the tool's author to fix it") from None
    cleaned: dict[str, Any] = clean(flat, openai=provider in ("openai", "gemini"))
    if provider == "gemini":
        return for_gemini(cleaned)
    if not strict:
        return cleaned
    problem = strict_problem(cleaned)
    if problem is not None:
        raise ConfigurationError(f"the schema has no strict form: {problem}", hint="render without strict")
    return tighten(cleaned)
