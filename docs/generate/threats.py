"""List the threats of `tests/project/threats.py`, each with the number of hostile components that try it."""

from __future__ import annotations

from wasmrt.testing.attacks import ATTACKS

from tests.project.threats import THREATS


def threats() -> str:
    """Return a list of the threats with the number of their attacks."""
    assert {name for threat in THREATS for name in threat.attacks} <= {attack.name for attack in ATTACKS}
    lines = []
    for threat in THREATS:
        tried = f" ({len(threat.attacks)} attack{'s' * (len(threat.attacks) > 1)})" if threat.attacks else ""
        lines.append(f"- {threat.threat[0].upper()}{threat.threat[1:]}{tried}")
    return "\n".join(lines)
