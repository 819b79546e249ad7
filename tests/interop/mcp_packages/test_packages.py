"""Servers from packages: installed in confined steps, pinned, started without network, updated and removed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.compiled import Installation
from tests.interop.mcp_packages.registry import PackageRegistry, serving
from wasmrt.cli.shared.root import cli

pytestmark = pytest.mark.ci("slow")

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@pytest.fixture
def home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = sharing_code(tmp_path / "home")
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    (folder / "data" / "config.toml").write_text("[tools.filter]\nallow_external = true\n")
    return folder / "data"


@pytest.fixture
def registry(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageRegistry]:
    with serving() as registry:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{registry.port}/simple")
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{registry.port}/")
        yield registry


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", *args], prog_name="wasmrt")


def rows() -> Any:
    return json.loads(run("list", "--json").stdout)


def folders(home: Path, name: str) -> list[Path]:
    return sorted((home / "mcp-packages" / name).glob("*"))


def test_a_package_of_pypi_is_pinned_runs_without_network_is_updated_and_removed(
    home: Path, registry: PackageRegistry
) -> None:
    registry.add_wheel("tiny-server", "1.0")
    declined = run("add", "tiny", "--", "uvx", "tiny-server")
    assert declined.exit_code == 3 and "tiny-server 1.0 of PyPI" in declined.stderr
    assert folders(home, "tiny") == [] and rows() == []
    added = run("add", "tiny", "--yes", "--trust", "local", "--", "uvx", "tiny-server@latest")
    assert added.exit_code == 0, added.output
    assert "it has no network" in added.stderr and "the server claims that it only reads" in added.stdout
    (row,) = rows()
    digest = row["package"]["digest"]
    assert f"with the digest {digest}" in added.stderr
    assert row["package"]["version"] == "1.0" and row["package"]["runner"] == ["uvx", "tiny-server@latest"]
    called = run("call", "tiny", "dial", json.dumps({"port": registry.port}))
    assert called.stdout == '"no network"\n', called.output
    assert f"tiny: ok; tiny-server 1.0 of PyPI, digest {digest[:16]}" in run("check").stderr
    assert "is up to date" in run("update", "tiny").stderr

    registry.add_wheel("tiny-server", "1.1")
    asked = run("update", "tiny")
    assert asked.exit_code == 3 and f"tiny-server: 1.0 to 1.1, digest {digest[:16]} to " in asked.stderr
    assert rows() == [row] and len(folders(home, "tiny")) == 1, "a declined update changes nothing"
    updated = run("update", "tiny", "--yes")
    assert updated.exit_code == 0, updated.output
    assert '+"description": "Dials, 1.1."' in updated.stderr
    assert rows()[0]["package"]["version"] == "1.1" and len(folders(home, "tiny")) == 1
    assert run("remove", "tiny").exit_code == 0
    assert not (home / "mcp-packages" / "tiny").exists()


@pytest.mark.parametrize(
    ("path", "text"),
    [("data/pyvenv.cfg", "home = {folder}/private/bin\n"), ("scripts/python", "#!{folder}/private/bin/python\n")],
)
def test_a_wheel_that_replaces_files_of_its_environment_is_refused(
    home: Path, registry: PackageRegistry, tmp_path: Path, path: str, text: str
) -> None:
    content = text.format(folder=tmp_path)
    registry.add_wheel("tiny-server", "1.0", {f"tiny_server-1.0.data/{path}": content})
    refused = run("add", "tiny", "--yes", "--", "pipx", "run", "tiny-server")
    assert refused.exit_code == 2, refused.output
    assert "replaces files of its virtual environment" in refused.stderr
    assert rows() == [] and folders(home, "tiny") == []


def test_a_missing_package_and_a_missing_program_are_refused(home: Path, registry: PackageRegistry) -> None:
    missing = run("add", "tiny", "--yes", "--", "uvx", "tiny-server")
    assert missing.exit_code == 2 and "check the name and the version" in missing.stderr
    registry.add_wheel("tiny-server", "1.0")
    other = run("add", "tiny", "--yes", "--", "uvx", "--from", "tiny-server", "other")
    assert other.exit_code == 2 and "its programs: 'tiny-server'" in other.stderr
    assert rows() == [] and folders(home, "tiny") == []


@pytest.mark.parametrize(("requires", "chosen"), [
    (['mcp[cli]>=1.6.0; python_version > "3"'], "1.9"), (["mcp>=2,<3"], "2.0"), (["mcp>=1", "needs-sdk-2"], "2.0"),
])  # fmt: skip
def test_a_package_gets_version_1_of_the_mcp_sdk_if_it_accepts_it(
    home: Path, registry: PackageRegistry, requires: list[str], chosen: str
) -> None:
    def metadata(name: str, version: str, requires: list[str]) -> dict[str, str]:
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        text = head + "".join(f"Requires-Dist: {each}\n" for each in requires)
        return {f"{name.replace('-', '_')}-{version}.dist-info/METADATA": text}

    for version in ("1.9", "2.0"):
        registry.add_wheel("mcp", version)
    registry.add_wheel("needs-sdk-2", "1.0", metadata("needs-sdk-2", "1.0", ["mcp>=2"]))
    registry.add_wheel("tiny-server", "1.0", metadata("tiny-server", "1.0", requires))
    added = run("add", "tiny", "--yes", "--", "uvx", "tiny-server")
    assert added.exit_code == 0, added.output
    assert ("gets it (mcp<2)" in added.stderr) is (chosen == "1.9")
    assert [path.name for path in home.rglob("mcp-*.dist-info")] == [f"mcp-{chosen}.dist-info"]


@needs_npm
def test_a_package_for_a_newer_node_is_reported(home: Path, registry: PackageRegistry) -> None:
    registry.add_tarball("tiny", "2.0.0", engines={"node": ">=4000.1"})
    added = run("add", "tiny", "--yes", "--", "npx", "tiny")
    assert added.exit_code == 0 and "tiny requires Node.js 4000.1, and" in added.stderr, added.output


@needs_npm
def test_a_package_of_npm_runs_without_its_install_scripts(
    home: Path, registry: PackageRegistry, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    registry.add_tarball("tiny", "2.0.0", scripts={"postinstall": f"touch {trace}"}, hasInstallScript=True)
    added = run("add", "tiny", "--yes", "--", "npx", "-y", "tiny", "--greeting", "hi")
    assert added.exit_code == 0, added.output
    assert "the install scripts of tiny were not run" in added.stderr
    assert not trace.exists()
    (row,) = rows()
    assert (row["package"]["registry"], row["package"]["version"], row["tools"]) == ("npm", "2.0.0", 1)
    assert run("trust", "tiny", "--level", "local", "--yes").exit_code == 0
    assert run("check").exit_code == 0


@needs_npm
@pytest.mark.parametrize(("program", "said"), [
    ("../../../../../secret.js", "is not in the package"), ("package.json", "is not a Node script"),
])  # fmt: skip
def test_a_program_outside_its_npm_package_or_not_for_node_is_refused(
    home: Path, registry: PackageRegistry, program: str, said: str
) -> None:
    (home.parent / "secret.js").write_text("")
    registry.add_tarball("tiny", "2.0.0", bin=program)
    refused = run("add", "tiny", "--yes", "--", "npx", "tiny")
    assert refused.exit_code == 2 and said in refused.stderr, refused.output
    assert rows() == [] and folders(home, "tiny") == []
