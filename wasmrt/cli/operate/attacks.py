"""`wasmrt doctor --attack` and `--wall`: run the bundled attacks on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from wasmrt.authoring.testing.attacks import ATTACKS, Attack, Outcome, run
from wasmrt.authoring.testing.wall import KINDS, Row, run_wall
from wasmrt.cli.operate import host_attacks
from wasmrt.cli.operate.host_attacks import HOST_ATTACKS, HostAttack
from wasmrt.cli.shared.output import show, show_columns, show_json
from wasmrt.cli.shared.progress import status
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The result of one attack."""

    attack: str
    about: str
    stopped_by: str
    seconds: float
    deadline_seconds: float
    held: bool
    late: bool
    """True if the attack was stopped as expected, but after its deadline."""


def attack(as_json: bool) -> bool:
    """Run every attack, print the results, and return whether all attacks were stopped."""
    results = list(_iter_results())
    if as_json:
        show_json([asdict(result) for result in results])
    else:
        show_columns(("ATTACK", "STOPPED BY", "TIME", "RESULT"), [_make_row(result) for result in results])
        held = sum(result.held for result in results)
        show(f"\n{held} of {len(results)} attacks were stopped, and the host still responds")
    return all(result.held for result in results)


def _iter_results() -> Iterator[AttackResult]:
    total = len(ATTACKS) + len(HOST_ATTACKS)
    # Attacks are not stored in the compile cache.
    with status("starting the attacks") as line:
        with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
            for done, one in enumerate(ATTACKS):
                line.update(one.name, done, total)
                yield _make_result(one, run(one, runtime))
        for done, attack in enumerate(HOST_ATTACKS, len(ATTACKS)):
            line.update(attack.name, done, total)
            yield _make_host_result(attack)


def _make_result(one: Attack, outcome: Outcome) -> AttackResult:
    late = outcome.as_expected and not outcome.in_time
    return AttackResult(
        one.name, one.about, outcome.stopped_by, outcome.seconds, one.limits.timeout_seconds, outcome.held, late
    )


def _make_host_result(attack: HostAttack) -> AttackResult:
    outcome = host_attacks.run(attack)
    is_late = outcome.seconds > host_attacks.DEADLINE_SECONDS
    return AttackResult(
        attack.name, attack.about, outcome.stopped_by or "nothing", outcome.seconds, host_attacks.DEADLINE_SECONDS,
        held=bool(outcome.stopped_by) and not is_late, late=bool(outcome.stopped_by) and is_late,
    )  # fmt: skip


def _make_row(result: AttackResult) -> tuple[str, str, str, str]:
    time = f"{result.seconds:.3f} s of {result.deadline_seconds:g} s"
    ended = "held" if result.held else "late" if result.late else "BROKE OUT"
    return result.attack, result.stopped_by, time, ended


def attack_wall(as_json: bool) -> bool:
    """Try every forbidden system call, print the results, and return whether all calls were blocked."""
    with status("trying forbidden system calls in confined processes"):
        rows = run_wall()
    if as_json:
        show_json([asdict(row) | {"proven": row.proven, "held": row.held} for row in rows])
    else:
        show_columns(("ATTEMPT", "KIND", "USER", "BEFORE IT IS SEALED", "SEALED", "VERDICT"), map(_make_cells, rows))
        for kind in KINDS:
            show(_sum(kind, [row for row in rows if row.kind == kind]))
    return bool(rows) and all(row.held for row in rows)


def _make_cells(row: Row) -> tuple[str, ...]:
    verdict = "held" if row.held else "BROKE OUT"
    return row.attempt, row.kind, str(row.user), row.control, row.outcome, verdict if row.proven else f"{verdict} *"


def _sum(kind: str, rows: list[Row]) -> str:
    proven = [row.held for row in rows if row.proven]
    others = [row.held for row in rows if not row.proven]
    return (
        f"{kind}: blocked {sum(proven)} of {len(proven)} attempts that succeed without confinement, and "
        f"{sum(others)} of {len(others)} that fail without it too (*)"
    )
