"""`wasmrt doctor --attack`: the bundled hostile tools, let loose on this installation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from wasmrt.authoring.testing.attacks import ATTACKS, Attack, Outcome, run
from wasmrt.cli.shared.output import show, show_columns, show_json, status
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attack and how it ended."""

    attack: str
    about: str
    stopped_by: str
    seconds: float
    deadline_seconds: float
    held: bool
    late: bool
    """True where it came to its end, but after its deadline."""


def attack(as_json: bool) -> bool:
    """Run every attack, show a table of what stopped it, and return whether all held."""
    results = list(_results())
    if as_json:
        show_json([asdict(result) for result in results])
    else:
        show_columns(("ATTACK", "STOPPED BY", "TIME", "RESULT"), [_row(result) for result in results])
        held = sum(result.held for result in results)
        show(f"\n{held} of {len(results)} attacks held, and the host still answers")
    return all(result.held for result in results)


def _results() -> Iterator[AttackResult]:
    # Nothing of an attack is kept: the compile cache is for tools that somebody wants.
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        for number, one in enumerate(ATTACKS, 1):
            with status(f"attack {number} of {len(ATTACKS)}: {one.name}"):
                yield _result(one, run(one, runtime))


def _result(one: Attack, outcome: Outcome) -> AttackResult:
    late = outcome.as_expected and not outcome.in_time
    return AttackResult(
        one.name, one.about, outcome.stopped_by, outcome.seconds, one.limits.timeout_seconds, outcome.held, late
    )


def _row(result: AttackResult) -> tuple[str, str, str, str]:
    time = f"{result.seconds:.3f} s of {result.deadline_seconds:g} s"
    ended = "held" if result.held else "late" if result.late else "BROKE OUT"
    return result.attack, result.stopped_by, time, ended
