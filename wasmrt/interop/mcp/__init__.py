"""The Model Context Protocol: a server that offers a registry's tools, and a client for the tools of other servers."""
