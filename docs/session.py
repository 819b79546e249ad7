"""Runs a real session and draws it: python docs/session.py writes docs/session.svg."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
SIDECAR = """{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}]}}"""
SESSION = (
    ('wasmrt run json \'{"operation": "query", "data": {"a": [1, 2, 3]}, "path": "$.a[1]"}\'', None),
    ('wasmrt run echo \'{"mesage": "hi"}\'', None),
    ("wasmrt caps explain search.capabilities.json", None),
    ("wasmrt caps explain search.capabilities.json --url https://api.example.com/v1.evil/x", None),
    ("wasmrt doctor --attack", 15),
)


def main() -> None:
    console = Console(record=True, width=112, file=StringIO())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "search.capabilities.json").write_text(SIDECAR)
        environ = os.environ | {"WASMRT_HOME": f"{folder}/home", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        for command, lines in SESSION:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            run = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env=environ,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            shown = run.stdout.rstrip().splitlines()
            if lines is not None and len(shown) > lines:
                shown = [*shown[: lines - 3], f"  ... {len(shown) - lines + 1} more ...", *shown[-2:]]
            for line in shown:
                console.print(Text(line, style="red" if line.startswith("error:") else ""))
            console.print()
    drawn = console.export_svg(title="wasmrt")
    # The picture stands alone: the reader's own monospace font, nothing fetched.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "monospace")
    HERE.joinpath("session.svg").write_text(drawn)


if __name__ == "__main__":
    main()
