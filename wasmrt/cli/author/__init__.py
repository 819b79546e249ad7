"""Commands that make tools."""
