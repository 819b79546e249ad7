"""Install a package of PyPI with its dependencies, from wheels, into a virtual environment."""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
import os
import re
import sys
import venv
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError, InstallError
from wasmrt.core.files import read_file
from wasmrt.core.limits import KIB
from wasmrt.interop.mcp.packages._confined import PackageSteps
from wasmrt.interop.mcp.packages._model import PackageRequest

_SDK = re.compile(r"^Requires-Dist: *mcp *(?:\[[^\]\n]*\])? *((?:[(<>=!~][^;\n]*)?)(?:;.*)?$", re.MULTILINE)
_LOWEST = re.compile(r"(?:>=?|===?|~=) *(\d{1,9})")
_MAX_METADATA_BYTES = 256 * KIB
_ENV = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COLOR": "1"}


def install_pypi(request: PackageRequest, steps: PackageSteps) -> tuple[tuple[str, ...], str, list[Any], list[str]]:
    """Install a package; return the command of its program, its version, all packages with digests, and notes.

    Raises:
        ConfigurationError: pip is not available, or the package has no such program.
        InstallError: the package cannot be fetched or used.
    """
    pip, own = _find_pip(), Path(sys.executable)
    files, notes = _fetch(request, steps, pip)
    parts = [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]
    venv.EnvBuilder(symlinks=True, with_pip=False).create(steps.place)
    python = steps.place / "bin" / "python"
    before = _read_interpreter_state(steps.place)
    steps.run(
        [*pip, "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", "--no-compile",
         *map(str, files)],
        [own, python], _ENV, fetching=False, what=f"installing {request.requirement}",
    )  # fmt: skip
    # SECURITY: a wheel can contain any file of the environment. The interpreter and the pyvenv.cfg decide which folders
    # the server may read, so a wheel must not replace them.
    if _read_interpreter_state(steps.place) != before:
        raise InstallError(
            f"{request.name}, or a dependency, replaces files of its virtual environment", code="mcp-package",
            hint="do not use this package",
        )  # fmt: skip
    main = _find_distribution(request, steps.place)
    return _choose_command(request, main, steps.place), main.version, parts, notes


def _fetch(request: PackageRequest, steps: PackageSteps, pip: list[str]) -> tuple[list[Path], list[str]]:
    """Fetch the wheels of a package and its dependencies; return them, and notes.

    If the package also accepts version 1 of the MCP SDK, it gets that version: most such packages are older than
    version 2, and fail with it.
    """
    first = _download(request, steps, pip, "first", "--no-deps")
    if not any(each.partition("[")[0].strip() == "mcp" for each in request.extra) and _accepts_sdk_1(first, steps):
        try:
            note = f"{request.name} also accepts version 1 of the MCP SDK, and gets it (mcp<2)"
            return _download(request, steps, pip, "older", "mcp<2"), [note]
        except InstallError:  # a dependency requires version 2
            pass
    return _download(request, steps, pip, "wheels"), []


def _download(request: PackageRequest, steps: PackageSteps, pip: list[str], folder: str, *more: str) -> list[Path]:
    place = steps.temporary / folder
    place.mkdir()
    # SECURITY: building a source distribution would run the package's code with the network.
    steps.run(
        [*pip, "download", "--quiet", "--only-binary=:all:", f"--dest={place}", request.requirement, *request.extra,
         *more],
        [Path(sys.executable)], _ENV, fetching=True, what=f"fetching {request.requirement} from PyPI",
    )  # fmt: skip
    return sorted(place.iterdir())


def _accepts_sdk_1(wheels: list[Path], steps: PackageSteps) -> bool:
    """Return whether the only wheel requires the MCP SDK, in a range that has versions below 2."""
    unpacked = steps.temporary / "unpacked"
    # SECURITY: a wheel is unpacked in a confined process, since an archive can have any number of entries.
    words = [sys.executable, "-I", "-m", "zipfile", "-e", str(wheels[0]), str(unpacked)]
    steps.run(words, [Path(sys.executable)], _ENV, fetching=False, what="unpacking the package")
    found = next(unpacked.glob("*.dist-info/METADATA"), None)
    if found is None:
        return False
    try:
        metadata = read_file(found, max_bytes=_MAX_METADATA_BYTES, follow_link=False)
    except OSError:
        return False
    ranges = _SDK.findall(metadata.decode("utf-8", "replace"))
    return bool(ranges) and all(int(major) < 2 for each in ranges for major in _LOWEST.findall(each))


def _find_pip() -> list[str]:
    """Return the command of pip: from wasmrt's own environment, else the copy that Python ships for `ensurepip`."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    if importlib.util.find_spec("ensurepip") is not None:
        bundled = importlib.resources.files("ensurepip") / "_bundled"
        for wheel in bundled.iterdir() if bundled.is_dir() else ():
            if wheel.name.startswith("pip-"):
                return [sys.executable, "-I", f"{wheel}/pip"]
    raise ConfigurationError(
        "PyPI packages need pip, which wasmrt's Python does not have", code="no-program",
        hint=f"install it for {sys.executable}: python -m ensurepip, or uv pip install pip",
    )  # fmt: skip


def _read_interpreter_state(place: Path) -> list[tuple[str, str]]:
    """Return the settings of a virtual environment and its links to the interpreter."""
    links = sorted(path for path in (place / "bin").iterdir() if path.is_symlink())
    config = place / "pyvenv.cfg"
    content = "" if config.is_symlink() else config.read_text(errors="replace")
    return [("pyvenv.cfg", content), *((path.name, str(path.readlink())) for path in links)]


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _find_distribution(request: PackageRequest, place: Path) -> Distribution:
    found = distributions(path=[str(folder) for folder in place.glob("lib/python*/site-packages")])
    for each in found:
        if _normalize_name(str(each.metadata["Name"])) == _normalize_name(request.name):
            return each
    raise InstallError(f"{request.name} was not installed by pip", code="mcp-package", hint="check the package name")


def _choose_command(request: PackageRequest, main: Distribution, place: Path) -> tuple[str, ...]:
    """Return the command of the program to run: the requested one, the package's namesake, or the only one."""
    scripts = [entry.name for entry in main.entry_points if entry.group == "console_scripts"]
    wanted = request.program or request.name
    program = next((name for name in scripts if _normalize_name(name) == _normalize_name(wanted)), None)
    if program is None and not request.program and len(scripts) == 1:
        program = scripts[0]
    folder = place / "bin"
    if program is not None and (folder / program).is_file():
        # SECURITY: started by its interpreter; the first line of an untrusted script could name any file.
        return (str(folder / "python"), str(folder / program))
    binary = folder / wanted
    if "/" not in wanted and binary.is_file() and not binary.is_symlink() and binary.read_bytes()[:4] == b"\x7fELF":
        return (str(binary),)
    listed = ", ".join(map(repr, scripts[:10])) or "none"
    raise ConfigurationError(
        f"{request.name} has no program {wanted!r:.100}; its programs: {listed}",
        hint=f"name one: -- uvx --from {request.requirement} PROGRAM" if scripts else "check the package name",
    )
