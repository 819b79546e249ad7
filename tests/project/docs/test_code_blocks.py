"""Every code block of a page works: Python and shell run in the page's order, JSON and TOML are parsed.

A block below `<!-- file: NAME -->` is written to that file for later blocks. A block below `<!-- not run: REASON -->`
is only checked: Python has to compile, and the commands of a shell block have to exist with their options. The last
command of a block below `<!-- exits: CODE -->` has to exit with that code.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import Installation
from tests.project.docs.commands import commands, problem
from tests.project.docs.fakes import fake_network, put_files
from tests.project.docs.pages import PAGES, Block, blocks, named, spans
from wasmrt.agent.builtin.plugins import read_manifest
from wasmrt.agent.config import read_config_file
from wasmrt.agent.flows import find_declaration
from wasmrt.authoring.project import Project, read_cases
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.services import read_services
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.registry import list_tools
from wasmrt.cli.shared.registries import download_with, registry_access
from wasmrt.egress.leaks import load_custom_rules

_CHECKED = {"python", "sh", "json", "toml"}
_SHOWN = {"text", "wit", "c"}
"""Languages of blocks that are not run: drawings, output, excerpts."""

_SLOW = (
    "code-mode",
    "agents",
    "first-party-tools",
    "second-wall",
    "flows",
    "operating",
    "maintenance",
    "serving",
    "receipts",
    "shell",
)
"""Pages whose blocks take several seconds."""
_WITH_BLOCKS = [page for page in PAGES if any(block.language in _CHECKED for block in blocks(page))]


def _in_tiers(pages: list[Path]) -> list[Any]:
    slow = pytest.mark.ci("slow")
    return [pytest.param(page, id=named(page), marks=[slow] if page.stem in _SLOW else []) for page in pages]


def test_every_block_has_a_language_and_a_reason_if_it_is_not_run() -> None:
    for block in (block for page in PAGES for block in blocks(page)):
        assert block.language in _CHECKED | _SHOWN, f"{block.place}: language {block.language!r}"
        assert block.marks.get("not run", "a reason"), f"{block.place} has an empty reason for not being run"
        if block.language in ("json", "toml"):
            assert "file" in block.marks, f"{block.place} has no `file` comment, so its parser is unknown"


@pytest.mark.parametrize("page", _in_tiers(_WITH_BLOCKS))
def test_the_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    fake_network(monkeypatch)
    put_files(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        if block.language in ("json", "toml"):
            _write(block, tmp_path)
        elif block.language == "python":
            code = compile(block.text, block.place, "exec")
            if not _is_shown_only(block):
                exec(code, names)
        elif block.language == "sh" and not _is_shown_only(block):
            _run(block, tmp_path)


def test_every_command_of_a_page_exists_with_its_options() -> None:
    for page in PAGES:
        shell = [(each.place, line) for each in blocks(page) if each.language == "sh" for line in commands(each.text)]
        inline = [(named(page), line) for span in spans(page) if span.startswith("wasmrt ") for line in commands(span)]
        for place, words in [*shell, *inline]:
            found = problem(words, complete=(place, words) in shell)
            assert found is None, f"{place}: {' '.join(words)}: {found}"


def test_an_unknown_command_is_detected() -> None:
    assert problem(["wasmrt", "instal", "x.wasm"], complete=True) is not None
    assert problem(["wasmrt", "run", "echo", "--no-such-option"], complete=True) is not None
    assert problem(["wasmrt", "run"], complete=True) is not None
    assert problem(["wasmrt", "run"], complete=False) is None
    assert problem(["wasmrt", "caps", "explain", "search.json"], complete=True) is None


def _is_shown_only(block: Block) -> bool:
    return bool({"not run", "test"} & set(block.marks))


def _write(block: Block, folder: Path) -> None:
    file = folder / block.marks["file"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text)
    if file.name.endswith(".capabilities.json"):
        parse(block.text)
    elif file.name == "config.toml":
        read_config_file(file)
    elif file.name == "services.toml":
        assert read_services(block.text.encode())
    elif file.name.endswith(".rules.toml"):
        assert load_custom_rules(block.text)
    elif file.name == "tools.toml":
        policy = InstallPolicy()
        assert not list_tools(str(file), registry_access(policy), download_with(policy)).problems
    elif file.parent.name == "declarations":
        assert find_declaration((file.stem.replace("+", ":"),), "create_page", {}) is not None
    elif file.parent.name == "plugins":
        assert read_manifest(block.text.encode(), name=file.stem)
    elif file.parent.name == "tests":
        assert read_cases(Project(file.parent.parent, "page", "c"))
    else:
        pytest.fail(f"{block.place}: unknown parser for {file.name}")


def _run(block: Block, folder: Path) -> None:
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    expected = int(block.marks.get("exits", 0))
    assert run.returncode == expected, f"{block.place}: exit {run.returncode}\n{run.stdout}{run.stderr}"
