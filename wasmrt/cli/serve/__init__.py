"""Commands for MCP, in both directions, and the operator pages."""
