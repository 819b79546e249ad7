"""What a command does not load: a package that it does not need is most of its start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = frozenset(
    {
        *("wasmrt.runtime", "wasmrt.guest", "wasmrt.egress", "wasmrt.oauth", "wasmrt.secrets", "wasmrt.authoring"),
        *("wasmrt.capabilities", "wasmrt.leaks", "jsonschema_rs", "sqlite3", "re2"),
        *("ssl", "h11", "cryptography", "keyring", "redis", "asyncio", "wasmtime", "hyperscan", "tomllib"),
    }
)
FILE = "x.capabilities.json"
ENGINE = {"wasmrt.runtime", "wasmrt.guest", "wasmrt.leaks", "jsonschema_rs"}
NEEDED = {
    ("list",): {"sqlite3"},
    ("verify",): {"sqlite3"},
    ("leaks", "scan", FILE): {"wasmrt.leaks", "re2", "hyperscan"},
    ("caps", "fmt", FILE): {"wasmrt.capabilities", "wasmrt.secrets", "sqlite3"},
    ("secret", "list"): {"wasmrt.secrets", "cryptography"},
    ("run", "echo", '{"message": "hi"}'): {*ENGINE, "wasmrt.capabilities", "sqlite3", "re2", "hyperscan"},
}
PROGRAM = f"""import gc, sys
from wasmrt.cli import cli
try:
    cli(sys.argv[1:], prog_name="wasmrt", standalone_mode=False)
except SystemExit:
    pass
assert gc.isenabled() and gc.get_freeze_count()
print(*sorted({set(HEAVY)!r} & sys.modules.keys()), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", NEEDED, ids=" ".join)
def test_a_command_loads_no_package_that_it_does_not_need(
    arguments: tuple[str, ...], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unmeasured: None
) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    (tmp_path / FILE).write_text(json.dumps({"workspace": True}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(done.stderr.splitlines()[-1].split()) <= NEEDED[arguments]
