"""requirements-dev.txt pins the dependencies of pyproject.toml, and lists no server."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements-dev.txt").read_text()
RAY_LOCK = (ROOT / "tests/interop/mcp_peers/ray.txt").read_text()
"""Pins of Ray alone, which is too large for every developer's environment."""


def group(name: str) -> Iterator[str]:
    """Yield the requirements of a dependency group and of the groups that it includes."""
    members: list[Any] = PROJECT["dependency-groups"][name]
    for member in members:
        if isinstance(member, str):
            yield member
        else:
            yield from group(member["include-group"])


def asked() -> list[str]:
    project = PROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return sorted({*project["dependencies"], *extras, *group("dev")})


def pins(lock: str) -> list[Requirement]:
    """Return the pins: one for each package, or several if versions differ by Python or platform."""
    lines = [line for line in lock.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    return [Requirement(line.partition(" --hash=")[0]) for line in lines]


def test_each_dependency_is_pinned_to_an_allowed_version() -> None:
    pinned = [*pins(LOCK), *(pin for pin in pins(RAY_LOCK) if pin.name == "ray")]
    for wanted in map(Requirement, asked()):
        found = [pin for pin in pinned if canonicalize_name(pin.name) == canonicalize_name(wanted.name)]
        assert found, f"{wanted}: run just lock"
        for pin in found:
            (version,) = pin.specifier
            assert version.operator == "=="
            assert wanted.specifier.contains(version.version), f"{wanted}: run just lock"


def test_every_pin_has_hashes_and_no_server_is_listed() -> None:
    entries = LOCK.replace("\\\n", "").splitlines()
    assert [line for line in entries if line and not line.startswith("#") and "--hash=sha256:" not in line] == []
    assert re.findall(r"\w+://\S+|--(?:extra-)?index-url|--find-links", LOCK) == []
