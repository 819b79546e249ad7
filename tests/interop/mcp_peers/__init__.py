"""Programs of others that speak MCP, for the tests of `wasmrt serve` and of the client: see `install.py`."""
