"""The methods of the border, from the protocol itself."""

from __future__ import annotations

import inspect

from wasmrt.sandbox.guest.services import HostServices


def services() -> str:
    """List the methods of `HostServices` with the first sentence of each."""
    rows = ["| method | does |", "|---|---|"]
    for name, member in vars(HostServices).items():
        if not name.startswith("_") and inspect.isfunction(member):
            sentence = (inspect.getdoc(member) or "").partition(".")[0]
            rows.append(f"| `{name}` | {sentence} |")
    return "\n".join(rows)
