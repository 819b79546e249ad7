"""Tools in the form that OpenAI, Anthropic, Gemini and MCP clients take."""

from __future__ import annotations

from wasmrt.sandbox.schema.providers._render import Provider, provider_schema, render

__all__ = ["Provider", "provider_schema", "render"]
