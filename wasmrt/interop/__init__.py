"""Connections to other systems: MCP server and client, framework adapters, web server and web pages."""
