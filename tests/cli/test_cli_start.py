"""Tests that commands do not import modules that they do not need, to start fast."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wasmrt.cli.shared.root import COMMANDS

Run = Callable[..., "object"]
Write = Callable[..., Path]

# Modules that a run imports only if the tool's grant needs them.
NETWORK = {
    "psycopg",
    "wasmrt.egress.gateway",
    "wasmrt.egress.rates._redis",
    "httpx",
    "httpcore",
    "h11",
    "ssl",
    "limits",
    "redis",
}
SECRETS = {"wasmrt.egress.secrets", "keyring", "cryptography"}
INSTALLING = {"wasmrt.catalog.installer", "wasmrt.catalog.sources", "wasmrt.catalog.validator"}
# The engine and the schema validator are imported in the worker.
ELSEWHERE = {"wasmtime", "wasmrt.sandbox.guest.engine", "wasmrt.sandbox.guest.worlds", "jsonschema_rs"}
TOOLS = {
    "wasmrt.agent.registry",
    "wasmrt.agent.policy",
    "wasmrt.agent.approvals",
    "wasmrt.agent.builtin.plugins",
    "wasmrt.agent.flows",
    "pydantic",
    "asyncio",
}
UNUSED = NETWORK | SECRETS | INSTALLING | ELSEWHERE | TOOLS
UNUSED |= {"wasmrt.authoring.project", "wasmrt.testing", "tempfile", "logging"}
SHARED = ("calls", "errors", "groups", "options", "output", "progress", "root", "runtime", "tools")
COMMAND = {"shared", *(f"shared.{name}" for name in SHARED), "use", "use.run", "use.component"}


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    script = (
        "import atexit, sys\nfrom wasmrt.__main__ import main\n"
        f"sys.argv = ['wasmrt', *{arguments!r}]\n"
        "atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr))\nmain()"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stderr.rpartition("loaded:")[2].split())


@pytest.mark.ci("slow")
def test_running_a_tool_imports_no_more_than_it_needs(wasmrt: Run, tool_file: Write, unmeasured: None) -> None:
    loaded = loaded_by("run", "echo", '{"message": "hi"}')
    assert loaded & UNUSED == set()
    assert {name for name in loaded if name.startswith("wasmrt.cli.")} == {f"wasmrt.cli.{name}" for name in COMMAND}
    wasmrt("install", tool_file())
    loaded = loaded_by("run", "parrot", '{"message": "hi"}')
    assert loaded & UNUSED == set()


def test_a_run_with_the_network_but_no_credential_loads_no_secrets(
    home: Path, tool_file: Write, unmeasured: None
) -> None:
    path = tool_file(sidecar={"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}})
    granted = ("--capabilities", str(path.with_name("parrot.capabilities.json")))
    loaded = loaded_by("run", str(path), '{"message": "hi"}', *granted)
    assert "wasmrt.egress.gateway" in loaded
    assert loaded & (SECRETS | {"wasmrt.egress.oauth", "h11", "ssl", "redis", "limits"}) == set()


def test_help_and_the_list_of_tools_load_no_engine(wasmrt: Run, tool_file: Write, unmeasured: None) -> None:
    wasmrt("install", tool_file())
    heavy = NETWORK | SECRETS | {"wasmtime", "wasmrt.sandbox.guest", "wasmrt.egress.leaks", "wasmrt.runtime.runtime"}
    assert loaded_by("list") & (heavy | {"wasmrt.capabilities", "wasmrt.sandbox.component"}) == set()
    assert loaded_by("--help") & (heavy | {"sqlite3", "wasmrt.capabilities", "wasmrt.cli.use.run"}) == set()


FILE = "x.capabilities.json"
ENGINE = {
    "wasmrt.runtime.runtime",
    "wasmrt.sandbox.guest.engine",
    "wasmrt.sandbox.isolation",
    "wasmrt.sandbox.schema",
    "jsonschema_rs",
}


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (("leaks", "scan", FILE), NETWORK | SECRETS | ENGINE | {"wasmrt.capabilities", "sqlite3"}),
        (("caps", "fmt", FILE), NETWORK | ENGINE | {"cryptography", "keyring", "wasmrt.egress.leaks"}),
        (("caps", "check", FILE), NETWORK | ENGINE | {"cryptography", "keyring", "wasmrt.egress.leaks"}),
        (("caps", "explain", FILE), ENGINE | SECRETS - {"wasmrt.egress.secrets"} | {"h11", "ssl"}),
        (
            ("secret", "list"),
            ENGINE | {"wasmrt.egress.gateway", "wasmrt.egress.leaks", "wasmrt.capabilities", "h11", "sqlite3"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_commands_import_no_unneeded_packages(
    arguments: tuple[str, ...],
    unused: set[str],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unmeasured: None,
) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(json.dumps({"workspace": True}))
    assert loaded_by(*arguments) & unused == set()


def test_garbage_collector_state_is_restored(home: Path) -> None:
    script = (
        "import gc, sys\nfrom wasmrt.cli import cli\nif len(sys.argv) > 1: gc.disable()\n"
        "cli(['list'], standalone_mode=False)\nprint(gc.isenabled())"
    )
    for more, enabled in ((), "True"), (("off",), "False"):
        command = [sys.executable, "-c", script, *more]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1] == enabled


EXTRAS = "mcp mcp_types jwt redis limits psycopg opentelemetry tree_sitter playwright numpy wordllama httpx wasm_tools"


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys\nsys.modules |= dict.fromkeys({EXTRAS!r}.split())\nfrom wasmrt.cli import main\nmain()"
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.ci("slow")
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_shows_its_help_without_the_extras(name: str, home: Path) -> None:
    shown = without_extras(name, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert " ".join(COMMANDS[name].split()) in " ".join(shown.stdout.split())


@pytest.mark.ci("slow")
def test_help_without_an_extra_says_what_to_install(home: Path) -> None:
    for arguments in (("mcp", "--help"), ("mcp", "add", "--help"), ("mcp", "add", "a", "--env", "A=1", "-h")):
        shown = without_extras(*arguments)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "MCP servers need a package that is not installed: pip install 'wasmrt[mcp]'" in shown.stdout
    refused = without_extras("mcp", "list")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "hint: pip install 'wasmrt[mcp]'" in refused.stderr
