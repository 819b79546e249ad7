"""The requests of a guest to its host, from their classes."""

from __future__ import annotations

import inspect

from wasmrt.sandbox.guest.requests import NAMES


def services() -> str:
    """List the requests with the first sentence of each."""
    rows = ["| request | the host's task |", "|---|---|"]
    for kind in NAMES:
        sentence = " ".join((inspect.getdoc(kind) or "").split()).partition(".")[0]
        rows.append(f"| `{kind.__name__}` | {sentence} |")
    return "\n".join(rows)
