"""A server of the Model Context Protocol: `protocol` speaks both of its eras, `tools` is what a registry offers there.

`protocol` knows nothing of tools and loads in no time, so that a client has its first answer before they are prepared.
"""
