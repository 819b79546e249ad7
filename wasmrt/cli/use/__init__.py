"""Commands that run and inspect tools."""
