"""Install a package of npm with its dependencies, without running install scripts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError, InstallError
from wasmrt.core.files import read_file
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_MCP_PACKAGE_FILE_BYTES
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.interop.mcp.packages._confined import PackageSteps
from wasmrt.interop.mcp.packages._model import PackageRequest

_LOWEST_NODE = re.compile(r"(?:>=|\^|~|v)? *(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?")
_SCRIPT_SUFFIXES = (".js", ".cjs", ".mjs")


def install_npm(request: PackageRequest, steps: PackageSteps) -> tuple[tuple[str, ...], str, list[Any], list[str]]:
    """Install a package; return the command of its program, its version, all packages with digests, and notes.

    Raises:
        ConfigurationError: Node.js is not installed, or the package has no such program.
        InstallError: the package cannot be fetched or used.
    """
    programs = [Path(_find(name)) for name in ("npm", "node")]
    (steps.place / "package.json").write_text(json.dumps({"private": True}))
    # SECURITY: install scripts would run the package's code with the network.
    options = ["--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    steps.run(
        [str(programs[0]), "install", f"--prefix={steps.place}", *options, "--", request.requirement],
        programs, {"npm_config_cache": str(steps.temporary / "npm")}, fetching=True,
        what=f"fetching {request.requirement} from npm",
    )  # fmt: skip
    installed = _read_object(steps.place / "package-lock.json").get("packages", {})
    package = steps.place / "node_modules" / request.name
    parts, scripts = [], []
    for path, entry in sorted(installed.items()):
        if not path:
            continue
        integrity = entry.get("integrity")
        if not isinstance(integrity, str) and not entry.get("inBundle"):
            # SECURITY: without a digest, the content of this package is not pinned.
            raise InstallError(f"{path} has no digest in the registry", code="mcp-package", hint="use another version")
        parts.append([path, entry.get("version"), integrity])
        if entry.get("hasInstallScript"):
            scripts.append(path.rpartition("node_modules/")[2])
    notes = [f"the install scripts of {', '.join(scripts)} were not run"] if scripts else []
    manifest = _read_object(package / "package.json")
    script = _find_script(request, manifest, package)
    if (problem := _find_node_problem(manifest, programs[1])) is not None:
        notes.append(f"{request.name} {problem}")
    return ("node", str(script)), str(manifest.get("version")), parts, notes


def _find_node_problem(manifest: dict[str, Any], node: Path) -> str | None:
    """Return a note if the package requires a newer Node.js than the installed one, else None."""
    engines = manifest.get("engines")
    lowest = _LOWEST_NODE.match(str(engines.get("node", "")) if isinstance(engines, dict) else "")
    found = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout.strip()  # noqa: S603
    own = _LOWEST_NODE.match(found)
    if lowest is None or own is None or _split_version(own) >= _split_version(lowest):
        return None
    wanted = ".".join(part for part in lowest.groups() if part)
    return f"requires Node.js {wanted}, and {node} is {found}; if the server fails, install a newer one"


def _split_version(version: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part or 0) for part in version.groups())


def _find(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise ConfigurationError(
            f"npm packages need {program}, which was not found", code="no-program",
            hint="install Node.js 20 or later, with npm",
        )  # fmt: skip
    return found


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = read_file(path, max_bytes=MAX_MCP_PACKAGE_FILE_BYTES, follow_link=False)
        value = read_json(data, max_bytes=MAX_MCP_PACKAGE_FILE_BYTES, max_depth=MAX_JSON_DEPTH)
    except (OSError, JsonError) as error:
        raise InstallError(f"the {path.name} of the package cannot be read: {error}", code="mcp-package") from None
    if not isinstance(value, dict):
        raise InstallError(f"the {path.name} of the package is not an object", code="mcp-package")
    return value


def _find_script(request: PackageRequest, manifest: dict[str, Any], package: Path) -> Path:
    """Return the script of the program to run: the requested one, the only one, or the package's namesake."""
    declared = manifest.get("bin", {})
    short = request.name.rpartition("/")[2]
    programs = {short: declared} if isinstance(declared, str) else declared if isinstance(declared, dict) else {}
    if len(set(map(str, programs.values()))) == 1 and not request.program:
        chosen = next(iter(programs.values()))
    else:
        chosen = programs.get(request.program or short)
    if not isinstance(chosen, str):
        listed = ", ".join(map(repr, list(programs)[:10])) or "none"
        raise ConfigurationError(
            f"{request.name} has no program {request.program or short!r:.100}; its programs: {listed}",
            hint=f"name one: -- npx --package={request.requirement} PROGRAM" if programs else "check the package name",
        )
    script = (package / chosen).resolve()
    # SECURITY: the path is the package's text, and must not leave the package.
    if not script.is_relative_to(package.resolve()) or not script.is_file():
        raise InstallError(f"the program {chosen!r:.100} of {request.name} is not in the package", code="mcp-package")
    with script.open("rb") as file:
        first = file.readline(256)
    # SECURITY: the interpreter is chosen here; the first line of an untrusted script could name any file.
    if script.suffix not in _SCRIPT_SUFFIXES and not (first.startswith(b"#!") and b"node" in first):
        raise InstallError(f"the program {chosen!r:.100} of {request.name} is not a Node script", code="mcp-package")
    return script
