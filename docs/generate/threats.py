"""List the threats of `tests/project/threats.py`, each with the hostile components and tests that cover it."""

from __future__ import annotations

from wasmrt.testing.attacks import ATTACKS

from tests.project.threats import THREATS


def threats() -> str:
    """List every threat; a test's name is its sentence, and links to its file."""
    about = {attack.name: attack.about for attack in ATTACKS}
    lines = []
    for threat in THREATS:
        lines += [f"### {threat.threat[0].upper()}{threat.threat[1:]}", ""]
        lines += [f"- attack `{name}`: {about[name]}" for name in threat.attacks]
        lines += [f"- test: {_sentence(test)}" for test in threat.tests]
        lines.append("")
    return "\n".join(lines)


def _sentence(test: str) -> str:
    file, _, function = test.partition("::")
    return f"[{function.removeprefix('test_').replace('_', ' ')}](../tests/{file})"
