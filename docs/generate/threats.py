"""List the threats of `tests/project/threats.py`, each with the hostile components and tests that cover it."""

from __future__ import annotations

from wasmrt.testing.attacks import ATTACKS

from tests.project.threats import THREATS


def threats() -> str:
    """Return a table of the threats: the attacks, and the files with tests."""
    assert {name for threat in THREATS for name in threat.attacks} <= {attack.name for attack in ATTACKS}
    rows = ["| threat | attacks | tests |", "|---|---|---|"]
    for threat in THREATS:
        files = dict.fromkeys(test.partition("::")[0] for test in threat.tests)
        tests = ", ".join(f"[{_title(file)}](../tests/{file})" for file in files)
        attacks = ", ".join(f"`{name}`" for name in threat.attacks)
        rows.append(f"| {threat.threat[0].upper()}{threat.threat[1:]} | {attacks} | {tests} |")
    return "\n".join(rows)


def _title(file: str) -> str:
    return file.rpartition("/")[2].removeprefix("test_").removesuffix(".py")
