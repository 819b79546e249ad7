"""List the threats of `tests/project/threats.py`, each with the hostile components that try it."""

from __future__ import annotations

from wasmrt.testing.attacks import ATTACKS

from tests.project.threats import THREATS


def threats() -> str:
    """Return a list of the threats with the names of their attacks."""
    assert {name for threat in THREATS for name in threat.attacks} <= {attack.name for attack in ATTACKS}
    lines = []
    for threat in THREATS:
        attacks = ", ".join(f"`{name}`" for name in threat.attacks)
        lines.append(f"- {threat.threat[0].upper()}{threat.threat[1:]}{f' ({attacks})' if attacks else ''}")
    return "\n".join(lines)
