"""The Model Context Protocol: a server that offers a registry's tools, and a client that takes a server's tools."""
