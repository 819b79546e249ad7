"""`wasmrt mcp auth`: a login at a server's authorization server."""
