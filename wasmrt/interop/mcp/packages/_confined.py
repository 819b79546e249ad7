"""Run a package manager confined: it may write only its folders, and has the network only while it fetches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wasmrt.core.errors import DeadlineExceededError, InstallError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_MCP_STDERR_BYTES, MCP_INSTALL_SECONDS
from wasmrt.interop.mcp.program_files import required_files
from wasmrt.sandbox.component import last_lines, printable_line
from wasmrt.sandbox.isolation.confine import BUILD_TOOL, confined_command
from wasmrt.sandbox.isolation.programs import not_started, run_to_end, starting

# SECURITY: proxy variables may contain a password; only the fetching step has them, and it runs no package's code.
_FETCH_VARIABLES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("npm_config_registry", "NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
)
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE")
_SYSTEM_FACTS = ("/etc/debian_version", "/etc/lsb-release", "/etc/redhat-release", "/etc/system-release")
"""Files of the system that pip must be able to read if they exist."""
_TAIL_CHARS = 1500


@dataclass(frozen=True, slots=True)
class PackageSteps:
    """The confined steps of one installation."""

    place: Path
    """The folder of the installation."""
    temporary: Path
    """Caches and downloads, which are deleted afterwards."""

    def run(
        self, words: Sequence[str], programs: Iterable[Path], env: dict[str, str], *, fetching: bool, what: str
    ) -> None:
        """Run one step until it ends; `programs` are the executables that it starts.

        Raises:
            InstallError: the step failed, or took too long; the message has the end of its output.
            ToolError: this system cannot confine it.
        """
        given = {name: os.environ[name] for name in _FETCH_VARIABLES if name in os.environ} if fetching else {}
        trusted = {name: os.environ[name] for name in _CERTIFICATES if name in os.environ} if fetching else {}
        with starting(what):
            command = confined_command(
                BUILD_TOOL,
                words,
                env={**given, **trusted, "HOME": str(self.temporary), "TMPDIR": str(self.temporary), **env},
                read=[str(path) for path in map(Path, (*_SYSTEM_FACTS, *trusted.values())) if path.exists()],
                write=[str(self.place), str(self.temporary)],
                execute=[str(self.place), *{str(path) for program in programs for path in required_files(program)}],
                network=fetching,
            )
            output = bytearray()

            def keep(data: bytes) -> None:
                output.extend(data)
                del output[:-MAX_MCP_STDERR_BYTES]

            try:
                code = run_to_end(command, b"", str(self.temporary), Lifetime(MCP_INSTALL_SECONDS), keep, keep)
            except DeadlineExceededError:
                raise InstallError(
                    f"{what} took longer than {MCP_INSTALL_SECONDS:g} s", code="mcp-package",
                    hint="check the connection to the registry, and try again",
                ) from None  # fmt: skip
        text = output.decode("utf-8", "replace")
        if (refused := not_started(what, code, text)) is not None:
            raise refused
        if code:
            told = printable_line(last_lines(text, _TAIL_CHARS)).strip() or f"exit code {code}"
            raise InstallError(f"{what} failed: {told}", code="mcp-package", hint=_suggest_fix(text))


def _suggest_fix(output: str) -> str:
    if "E404" in output or "ETARGET" in output:
        return "check the name and the version of the package"
    if "No matching distribution" in output:
        return "check the name and the version of the package; it and its dependencies need wheels for this Python"
    return "check the connection to the registry (npm_config_registry, PIP_INDEX_URL, HTTPS_PROXY), and try again"
