"""`wasmrt doctor --attack`: the bundled hostile tools, let loose on this installation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wasmrt.cli._output import is_interactive, show, show_columns, show_json

if TYPE_CHECKING:
    from wasmrt.testing.attacks import Attack, Outcome

_WORDS = {True: "held", False: "BROKE OUT"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One attack and how it ended."""

    attack: str
    about: str
    stopped_by: str
    seconds: float
    deadline_seconds: float
    held: bool

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def attack(as_json: bool) -> bool:
    """Run every attack, show a table of what stopped it, and say whether all held."""
    verdicts = list(_with_progress())
    if as_json:
        show_json([verdict.as_dict() for verdict in verdicts])
    else:
        rows = [
            (
                v.attack,
                v.stopped_by,
                f"{v.seconds:.3f} s of {v.deadline_seconds:g} s",
                "held" if v.held else "BROKE OUT",
            )
            for v in verdicts
        ]
        show_columns(("ATTACK", "STOPPED BY", "TIME", "VERDICT"), rows)
        held = sum(v.held for v in verdicts)
        show(f"\n{held} of {len(verdicts)} attacks held, and the host still answers")
    return all(verdict.held for verdict in verdicts)


def _with_progress() -> Iterator[Verdict]:
    from wasmrt.testing.attacks import ATTACKS

    if not is_interactive():
        yield from _verdicts(ATTACKS)
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(_verdicts(ATTACKS), "attacking", total=len(ATTACKS), console=Console(stderr=True), transient=True)


def _verdicts(attacks: tuple[Attack, ...]) -> Iterator[Verdict]:
    from wasmrt import WasmRuntimeConfig, WasmToolRuntime
    from wasmrt.testing.attacks import run

    # Nothing of an attack is kept: the compile cache is for tools that somebody wants.
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        for one in attacks:
            yield _verdict(one, run(one, runtime))


def _verdict(one: Attack, outcome: Outcome) -> Verdict:
    return Verdict(one.name, one.about, outcome.stopped_by, outcome.seconds, one.limits.timeout_seconds, outcome.held)
