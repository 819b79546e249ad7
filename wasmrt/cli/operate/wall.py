"""`wasmrt doctor --attack --wall`: the forbidden calls of confined processes, tried on this machine."""

from __future__ import annotations

from dataclasses import asdict

from wasmrt.authoring.testing.wall import KINDS, Row, run_wall
from wasmrt.cli.shared.output import show, show_columns, show_json, status


def attack_wall(as_json: bool) -> bool:
    """Try every forbidden call, show a table of what became of each, and return whether all held."""
    with status("trying the forbidden calls of confined processes"):
        rows = run_wall()
    if as_json:
        show_json([asdict(row) | {"proven": row.proven, "held": row.held} for row in rows])
    else:
        show_columns(("ATTEMPT", "KIND", "USER", "BEFORE IT IS SEALED", "SEALED", "VERDICT"), map(_cells, rows))
        for kind in KINDS:
            show(_sum(kind, [row for row in rows if row.kind == kind]))
    return bool(rows) and all(row.held for row in rows)


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "held" if row.held else "BROKE OUT"
    return row.attempt, row.kind, str(row.user), row.control, row.outcome, verdict if row.proven else f"{verdict} *"


def _sum(kind: str, rows: list[Row]) -> str:
    proven = [row.held for row in rows if row.proven]
    others = [row.held for row in rows if not row.proven]
    return (
        f"{kind}: {sum(proven)} of {len(proven)} held that an unsealed process can do here; "
        f"{sum(others)} of {len(others)} that not even that one can do (*)"
    )
