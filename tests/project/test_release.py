"""A release: equal builds, the list of the wheel's contents, its notes, and the wheel run by pipx and uvx."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tools.release import ReleaseError, check_equal, release_notes
from tools.sbom import bill_of_materials
from wasmrt.core.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
CHANGES = f"# Changelog\n\n## {VERSION} - 2026-12-01\n\n- a change\n\n## 0.0.9 - 2026-01-01\n\n- an older one\n"
wheel_tier = pytest.mark.ci("wheel")
pytestmark = pytest.mark.timeout(900)
Bill = dict[str, Any]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a release of the last commit, built by the script that the workflow calls."""
    if not (ROOT / ".git").exists():
        pytest.skip("a release is built from a clone, and this is not one")
    out = tmp_path_factory.mktemp("release") / "out"
    done = subprocess.run([ROOT / ".ci/release", "build", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(released: Path) -> Path:
    (found,) = (released / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bill(released: Path) -> Bill:
    found: Bill = json.loads((released / "sbom.cdx.json").read_text())
    return found


# -- builds ------------------------------------------------------------------------------------------------------------


@wheel_tier
def test_another_clone_builds_the_published_wheel_and_sdist(released: Path, tmp_path: Path) -> None:
    """The release was built at another time, path, umask, zone and hash seed, and the wheel from the sdist."""
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "a clone"], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"]
    subprocess.run(command, cwd=tmp_path / "a clone", env=environment, check=True, capture_output=True)
    built = {path.name: path.read_bytes() for path in (tmp_path / "dist").iterdir()}
    assert built == {path.name: path.read_bytes() for path in (released / "dist").iterdir()}


@wheel_tier
def test_the_checksums_of_a_release_match_its_files(released: Path, tmp_path: Path) -> None:
    files = [path for path in released.rglob("*") if path.is_file()]
    for path in files:  # in one folder, as they are downloaded
        shutil.copy(path, tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
    listed = {line.split("  ")[1] for line in (released / "SHA256SUMS").read_text().splitlines()}
    assert {path.name for path in files} == {*listed, "SHA256SUMS"} and len(listed) == 3


def test_builds_that_differ_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / folder / "a.whl" for folder in ("one", "two", "three")]
    for path, content in zip(files, (b"same", b"same", b"other"), strict=True):
        path.parent.mkdir()
        path.write_bytes(content)
    check_equal([files[0]], [files[1]])
    with pytest.raises(ReleaseError, match=r"differ in a\.whl"):
        check_equal([files[0]], [files[2]])
    with pytest.raises(ReleaseError, match="differ"):
        check_equal([files[0]], [])


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    assert release_notes(f"v{VERSION}", VERSION, CHANGES) == "- a change\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "error"),
    [
        ("v9.9.9", CHANGES, f"expected the tag v{VERSION}"),
        (VERSION, CHANGES, f"expected the tag v{VERSION}"),
        (f"v{VERSION}", CHANGES.replace(" - 2026-12-01", " (unreleased)"), "expected a section"),
        (f"v{VERSION}", CHANGES.replace("- a change", ""), "expected a section"),
    ],
)
def test_a_wrong_tag_and_a_changelog_without_the_release_are_refused(tag: str, changelog: str, error: str) -> None:
    with pytest.raises(ReleaseError, match=error):
        release_notes(tag, VERSION, changelog)


# -- the list of contents ----------------------------------------------------------------------------------------------


@wheel_tier
def test_every_component_of_the_wheel_is_listed_with_its_digest_and_sources(wheel: Path, bill: Bill) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.endswith(".wasm")
        }
    listed = {}
    for part in bill["components"]:
        properties = {each["name"]: each["value"] for each in part.get("properties", ())}
        if "wasmrt:path" in properties:
            listed[properties["wasmrt:path"]] = part["hashes"][0]["content"]
            assert (ROOT / properties["wasmrt:source"] / "Cargo.toml").is_file()
    assert listed == inside and len(inside) == 6
    assert bill["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


@wheel_tier
@pytest.mark.parametrize(
    ("tool", "lock", "crate"), [("code", "tools/code", "boa_engine"), ("json", "tools", "serde_json_path")]
)
def test_the_crates_of_a_component_are_listed_with_the_digests_of_its_lock_file(
    bill: Bill, tool: str, lock: str, crate: str
) -> None:
    packages = tomllib.loads((ROOT / lock / "Cargo.lock").read_text())["package"]
    (locked,) = (package for package in packages if package["name"] == crate)
    ref = f"pkg:cargo/{crate}@{locked['version']}"
    (part,) = (part for part in bill["components"] if part["bom-ref"] == ref)
    assert part["hashes"] == [{"alg": "SHA-256", "content": locked["checksum"]}]
    edges = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert ref in edges[f"wasm:{tool}"]
    assert {target for targets in edges.values() for target in targets} <= set(edges)


@wheel_tier
def test_required_packages_and_packages_of_extras_are_listed(bill: Bill) -> None:
    scopes = {part["name"]: part.get("scope") for part in bill["components"]}
    assert (scopes["h11"], scopes["cryptography"], scopes["redis"]) == ("required", "required", "optional")


@wheel_tier
def test_a_wheel_with_an_unknown_or_changed_component_is_refused(wheel: Path, tmp_path: Path) -> None:
    changed = tmp_path / wheel.name
    shutil.copy(wheel, changed)
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("wasmrt/catalog/shipped/more.wasm", b"\0asm")
    with pytest.raises(ValueError, match=r"got other ones: wasmrt/catalog/shipped/more\.wasm"):
        bill_of_materials(changed)


# -- the workflow ------------------------------------------------------------------------------------------------------


def test_the_workflow_only_calls_the_script_and_pinned_actions() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert {command for step in steps if (command := step.get("run"))} == {
        '.ci/release check "$GITHUB_REF_NAME" > notes.md',
        ".ci/release build out",
        'gh release create "$GITHUB_REF_NAME" --verify-tag --notes-file notes.md '
        "out/dist/* out/sbom.cdx.json out/SHA256SUMS",
    }
    unpinned = [used for step in steps if (used := step.get("uses")) and len(used.partition("@")[2]) != 40]
    assert unpinned == ["pypa/gh-action-pypi-publish@v1.14.2"], "see docs/releasing.md"
    assert workflow["permissions"] == {}
    allowed = {name: set(job["permissions"].items()) for name, job in workflow["jobs"].items()}
    writers = {name for name, each in allowed.items() if ("contents", "write") in each}
    assert [name for name, each in allowed.items() if ("id-token", "write") in each] == ["attest", "publish"]
    assert writers == {"announce"}


# -- pipx and uvx ------------------------------------------------------------------------------------------------------


class LocalIndex(NamedTuple):
    url: str
    served: list[str]
    """Names of the pages and files that were sent."""


@pytest.fixture
def index(wheel: Path) -> Iterator[LocalIndex]:
    """Serve an index (PEP 503) with the built wheel on loopback; other packages are at pip's index."""
    served: list[str] = []
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--help"], capture_output=True, text=True, check=True
    )
    found = re.search(r"--index-url <url>[^(]*\(default\s+(\S+)\)", shown.stdout)  # a setting changes the default
    assert found is not None, shown.stdout
    elsewhere = found[1].rstrip("/")

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").rpartition("/")[2]
            if name not in ("wasmrt", wheel.name):
                self.send_response(302)
                self.send_header("Location", f"{elsewhere}/{name}/")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            served.append(name)
            page = f'<!DOCTYPE html><a href="/files/{wheel.name}">{wheel.name}</a>'.encode()
            body = page if name == "wasmrt" else wheel.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if name == "wasmrt" else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_error(405)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield LocalIndex(f"http://127.0.0.1:{server.server_port}/simple", served)
        server.shutdown()


@wheel_tier
@pytest.mark.parametrize("runner", ["pipx", "uvx"])
def test_the_wheel_runs_without_an_installation(index: LocalIndex, wheel: Path, tmp_path: Path, runner: str) -> None:
    start = {
        "pipx": ["pipx", "run", "--index-url", index.url],
        "uvx": ["uv", "tool", "run", "--default-index", index.url, "--refresh-package", "wasmrt"],
    }[runner]
    homes = {name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "UV_TOOL_DIR", "WASMRT_HOME")}
    environment = os.environ | homes | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", *start, "wasmrt", "run", "echo", '{"message": "from a wheel"}']
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "from a wheel" in done.stdout
    assert wheel.name in index.served
