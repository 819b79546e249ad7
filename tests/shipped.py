"""Names of the tools that a registry without a workspace has from the start, sorted."""

from wasmrt.install.bundled import HOST_TOOLS

SHIPPED = sorted(["echo", "html_to_markdown", "http", "json", "time", "web_fetch", *HOST_TOOLS])
