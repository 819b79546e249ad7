"""List the threats of `tests/project/threats.py`."""

from __future__ import annotations

from wasmrt.testing.attacks import ATTACKS

from tests.project.threats import THREATS


def threats() -> str:
    """Return a list of the threats."""
    assert {name for threat in THREATS for name in threat.attacks} <= {attack.name for attack in ATTACKS}
    return "\n".join(f"- {threat.threat[0].upper()}{threat.threat[1:]}" for threat in THREATS)
