"""The result of a call as JSON data: bounded, cleaned of what nobody can see, held against the tool's own schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.core.errors import GuestError, GuestOutputError, InvalidComponentError, InvalidParametersError
from wasmrt.interop.mcp.client._definition import Definition, cleaned, wrapped_output
from wasmrt.interop.mcp.client._errors import said
from wasmrt.sandbox.schema import Validator


def read_result(result: Any, tool: Definition, server: str, redact: Callable[[str], str]) -> Any:
    """Return what a tool answered: its structured content, else its text, else the blocks of its content.

    Raises:
        GuestError: the tool says that it failed.
        GuestOutputError: the structured content does not fit the tool's own schema.
    """
    blocks = [_block(each) for each in result.content]
    words = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    if result.is_error:
        told = said(words, redact).strip()
        raise GuestError(told or f"{tool.name} of {server} failed and said nothing")
    structured = result.structured_content
    others = [block for block in blocks if block["type"] != "text"]
    if tool.output_schema is not None:
        _check(structured, tool, server)
    if structured is not None or tool.output_schema is not None:
        # The text beside it says the same (server/tools, 2026-07-28), a picture does not.
        return cleaned({"structured": structured, "content": others} if others else structured)
    return cleaned(blocks if others else words)


def _check(structured: Any, tool: Definition, server: str) -> None:
    assert tool.output_schema is not None
    try:
        Validator(wrapped_output(tool.output_schema)).check({"value": structured})
    except (InvalidParametersError, InvalidComponentError) as error:
        raise GuestOutputError(
            f"{server} answered with what does not fit its own schema of {tool.name}", code="mcp-result",
            hint="tell its author",
        ) from error  # fmt: skip


def _block(block: Any) -> dict[str, Any]:
    """Return one block of content as it is in the protocol, without its annotations."""
    data: dict[str, Any] = block.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {key: value for key, value in data.items() if key not in ("annotations", "_meta")}
