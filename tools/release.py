"""Check and build a release. `.ci/release` runs it with the pinned build tools.

python -m tools.release check TAG     check tag, version and changelog; print the release notes
python -m tools.release build FOLDER  build sdist and wheel twice, compare them, and write them to FOLDER with an SBOM
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.sbom import bill_of_materials

ROOT = Path(__file__).resolve().parents[1]
SURROUNDINGS = {  # folder of a clone: what differs while it is built
    "first": {"PYTHONHASHSEED": "1", "TZ": "UTC", "umask": "022"},
    "a second, longer folder": {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "umask": "077"},
}


class ReleaseError(Exception):
    """The release cannot be built or published."""


def release_notes(tag: str, version: str, changelog: str) -> str:
    """Return the section of the changelog for a release.

    Raises:
        ReleaseError: the tag is not that of the version, or the changelog has no dated section for it.
    """
    if tag != f"v{version}":
        raise ReleaseError(f"expected the tag v{version} (wasmrt/core/version.py), got {tag}")
    heading = re.compile(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    found = heading.search(changelog)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md: expected a section '## {version} - YYYY-MM-DD' with changes; write its date")
    return found[1].strip() + "\n"


def build(out: Path) -> list[Path]:
    """Write `dist/*.whl`, `dist/*.tar.gz`, `sbom.cdx.json` and `SHA256SUMS` of the commit to an empty or new folder.

    Raises:
        ReleaseError: two builds differ.
        OSError: the folder cannot be written.
    """
    dist = out / "dist"
    dist.mkdir(parents=True)
    with TemporaryDirectory() as work:
        built = [_build(Path(work, folder), surroundings) for folder, surroundings in SURROUNDINGS.items()]
        check_equal(*built)
        files = [dist / path.name for path in built[0]]
        for path, copy in zip(built[0], files, strict=True):
            copy.write_bytes(path.read_bytes())
    (wheel,) = (path for path in files if path.suffix == ".whl")
    sbom = out / "sbom.cdx.json"
    sbom.write_text(json.dumps(bill_of_materials(wheel), indent=1) + "\n")
    sums = "".join(f"{_digest(path)}  {path.name}\n" for path in [*files, sbom])
    (out / "SHA256SUMS").write_text(sums)
    return [*files, sbom]


def check_equal(first: list[Path], second: list[Path]) -> None:
    """Compare two builds.

    Raises:
        ReleaseError: a name or a byte differs.
    """
    names = [[path.name for path in files] for files in (first, second)]
    if names[0] != names[1]:
        raise ReleaseError(f"two builds of one commit differ: {names[0]} and {names[1]}")
    differ = [a.name for a, b in zip(first, second, strict=True) if _digest(a) != _digest(b)]
    if differ:
        raise ReleaseError(f"two builds of one commit differ in {', '.join(differ)}; compare them with diffoscope")


def _build(folder: Path, surroundings: dict[str, str]) -> list[Path]:
    """Build the sdist of a new clone, and the wheel of the unpacked sdist."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "clone"], check=True)
    # Without SOURCE_DATE_EPOCH, hatchling uses one constant time for all files.
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"} | surroundings
    umask = int(env.pop("umask"), 8)
    _hatchling("sdist", folder / "clone", folder, env, umask)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    _hatchling("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder, env, umask)
    return [*folder.glob("*.whl"), sdist]


def _hatchling(kind: str, source: Path, out: Path, env: dict[str, str], umask: int) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=source, env=env, umask=umask, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"hatchling cannot build the {kind}:\n{done.stdout}{done.stderr}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["check", tag]:
                version = runpy.run_path(str(ROOT / "wasmrt/core/version.py"))["VERSION"]
                print(release_notes(tag, version, (ROOT / "CHANGELOG.md").read_text()), end="")
            case ["build", folder]:
                for path in build(Path(folder)):
                    print(f"{_digest(path)}  {path}")
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
