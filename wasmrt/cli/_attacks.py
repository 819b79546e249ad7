"""`wasmrt doctor --attack`: the bundled hostile tools, let loose on this installation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from wasmrt.cli._output import show, show_columns, show_json, status
from wasmrt.config import WasmRuntimeConfig
from wasmrt.runtime import WasmToolRuntime
from wasmrt.testing.attacks import ATTACKS, Attack, Outcome, run


@dataclass(frozen=True, slots=True)
class Verdict:
    """One attack and how it ended."""

    attack: str
    about: str
    stopped_by: str
    seconds: float
    deadline_seconds: float
    held: bool


def attack(as_json: bool) -> bool:
    """Run every attack, show a table of what stopped it, and return whether all held."""
    verdicts = list(_verdicts())
    if as_json:
        show_json([asdict(verdict) for verdict in verdicts])
    else:
        show_columns(("ATTACK", "STOPPED BY", "TIME", "VERDICT"), [_row(verdict) for verdict in verdicts])
        held = sum(verdict.held for verdict in verdicts)
        show(f"\n{held} of {len(verdicts)} attacks held, and the host still answers")
    return all(verdict.held for verdict in verdicts)


def _verdicts() -> Iterator[Verdict]:
    # Nothing of an attack is kept: the compile cache is for tools that somebody wants.
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        for number, one in enumerate(ATTACKS, 1):
            with status(f"attack {number} of {len(ATTACKS)}: {one.name}"):
                yield _verdict(one, run(one, runtime))


def _verdict(one: Attack, outcome: Outcome) -> Verdict:
    return Verdict(one.name, one.about, outcome.stopped_by, outcome.seconds, one.limits.timeout_seconds, outcome.held)


def _row(verdict: Verdict) -> tuple[str, str, str, str]:
    time = f"{verdict.seconds:.3f} s of {verdict.deadline_seconds:g} s"
    return verdict.attack, verdict.stopped_by, time, "held" if verdict.held else "BROKE OUT"
