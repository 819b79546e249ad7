"""A tool as a model provider takes it: OpenAI, Anthropic, Gemini, MCP.

For all of them the top level is a plain object, without oneOf, anyOf, allOf, enum or not, and the parts are cleaned. A
rendering may say less than the tool's schema, and never forbids what an ordinary call needs: a call is checked against
the tool's own schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from wasmrt.core.errors import ConfigurationError, InvalidComponentError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES
from wasmrt.core.names import is_offered_name
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._document import SchemaError, read_schema
from wasmrt.sandbox.schema._references import inlined
from wasmrt.sandbox.schema.providers._clean import clean
from wasmrt.sandbox.schema.providers._flatten import flattened
from wasmrt.sandbox.schema.providers._gemini import for_gemini
from wasmrt.sandbox.schema.providers._strict import strict_problem, tightened

Provider = Literal["openai", "anthropic", "gemini", "mcp"]

_MAX_OPENAI_DESCRIPTION_BYTES = 1024
_ROOM_BYTES = {
    "openai": _MAX_OPENAI_DESCRIPTION_BYTES,
    "anthropic": MAX_DESCRIPTION_BYTES,
    "gemini": MAX_DESCRIPTION_BYTES,
    "mcp": MAX_DESCRIPTION_BYTES,
}
"""Bytes of a description, the document for models included."""


def render(
    tool_name: str,
    description: str,
    schema: Mapping[str, Any],
    provider: Provider,
    *,
    strict: bool = False,
    prompt: str = "",
) -> dict[str, Any]:
    """Return a tool as one provider has it declared.

    That is OpenAI's `tools` entry (chat completions), Anthropic's, Gemini's `FunctionDeclaration`, or MCP's `Tool`.
    `strict` is OpenAI's structured mode: every property required (an optional one may be null), no other allowed,
    and only the keywords it knows. Nulls that come back for absent fields are what `coerce` drops. `prompt` is a
    document for models: it follows the description where the whole of it has room.

    Raises:
        ConfigurationError: the name is not `[a-zA-Z0-9_-]{1,64}`, the provider is unknown, or `strict` cannot be had.
        InvalidComponentError: the schema is broken.
    """
    if not is_offered_name(tool_name):
        raise ConfigurationError(
            f"{printable_line(tool_name, 80)!r} cannot be a tool's name", hint="use 1 to 64 of a-z, A-Z, 0-9, _ and -"
        )
    params = provider_schema(schema, provider, strict=strict)
    described = f"{description}\n\n{prompt}" if prompt else description
    if len(described.encode("utf-8", "replace")) <= _ROOM_BYTES[provider]:
        description = described
    if provider == "anthropic":
        return {"name": tool_name, "description": description, "input_schema": params}
    if provider == "gemini":
        return {"name": tool_name, "description": description} | ({"parameters": params} if params else {})
    if provider == "mcp":
        return {"name": tool_name, "description": description, "inputSchema": params}
    function: dict[str, Any] = {
        "name": tool_name,
        "description": description
        if description is described and prompt
        else printable_line(description, _MAX_OPENAI_DESCRIPTION_BYTES - 3),
        "parameters": params,
    }
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def provider_schema(schema: Mapping[str, Any], provider: Provider, *, strict: bool = False) -> dict[str, Any]:
    """Return the schema of a tool's params alone, as `render` has it.

    Raises:
        ConfigurationError, InvalidComponentError: as `render`.
    """
    if provider not in _ROOM_BYTES or (strict and provider != "openai"):
        raise ConfigurationError(
            f"there is no {'strict ' if strict else ''}rendering for {printable_line(provider, 40)}",
            hint="render for openai, anthropic, gemini or mcp; strict is openai's",
        )
    try:
        flat = flattened(inlined(read_schema(schema), repeats=(1, 0)))
    except SchemaError as error:
        raise InvalidComponentError(f"the tool's schema {error}", hint="the tool's author has to mend it") from None
    cleaned: dict[str, Any] = clean(flat, openai=provider in ("openai", "gemini"))
    if provider == "gemini":
        return for_gemini(cleaned)
    if not strict:
        return cleaned
    problem = strict_problem(cleaned)
    if problem is not None:
        raise ConfigurationError(f"the schema has no strict form: {problem}", hint="render without strict")
    return tightened(cleaned)
