"""MCP programs by other authors, for the tests of `wasmrt serve` and of the client: see `install.py`."""
