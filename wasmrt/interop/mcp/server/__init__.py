"""A server of the Model Context Protocol: `protocol` implements the protocol, and `tools` offers a registry's tools.

`protocol` does not depend on `tools` and imports quickly, so that clients get a first response before the tools are
loaded.
"""
