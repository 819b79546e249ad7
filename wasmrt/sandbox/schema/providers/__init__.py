"""Render tools in the formats of OpenAI, Anthropic, Gemini and MCP."""

from __future__ import annotations

from wasmrt.sandbox.schema.providers._render import Provider, provider_schema, render

__all__ = ["Provider", "provider_schema", "render"]
