"""Install MCP servers from npm and PyPI, so that they run confined instead of through `npx` or `uvx`.

The command of a package runner is read (`_runners.py`), the package is fetched and installed once in confined steps
(`_npm.py`, `_pypi.py`), and the server then starts from the installed files.
"""

from wasmrt.interop.mcp.packages._install import install_package, keep_only
from wasmrt.interop.mcp.packages._model import Package, Registry
from wasmrt.interop.mcp.packages._runners import read_runner

__all__ = [
    "Package",
    "Registry",
    "install_package",
    "keep_only",
    "read_runner",
]
