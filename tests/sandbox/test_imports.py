"""imports.txt lists every function that a guest can import, with the policy that limits it."""

from __future__ import annotations

from pathlib import Path

from wasmrt.capabilities.kinds import KINDS
from wasmrt.sandbox.guest import wasi
from wasmrt.sandbox.guest import worlds as host
from wasmrt.sandbox.guest.engine import get_compatible_name

_LIST = Path(__file__).with_name("imports.txt")
_POLICIES = frozenset(
    (
        *("clock", "deadline", "empty", "ends-call", "handles-capped", "log-capped", "own-data", "random-capped"),
        *("refused", "unreachable", *(f"grant-{kind.section}" for kind in KINDS)),
    )
)


def _listed_policies() -> dict[str, str]:
    """Return the policy of each `interface#function`; resources have their own name as policy."""
    decided: dict[str, str] = {}
    interface = ""
    for line in _LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            interface = line
            continue
        name, _, policy = line.strip().rpartition(" ")
        decided[f"{interface}#{name.strip()}" if name != "resource" else f"{interface}#{policy}"] = policy
    return decided


def test_every_import_is_listed_with_its_policy() -> None:
    offered = set()
    for interface in (*host.interfaces(), *wasi.interfaces()):
        offered |= {f"{interface.name}#{name}" for name in (*interface.functions, *interface.resources)}
    assert set(_listed_policies()) == offered


def test_every_policy_is_known() -> None:
    functions = {name: policy for name, policy in _listed_policies().items() if policy != name.rpartition("#")[2]}
    assert {name: policy for name, policy in functions.items() if policy not in _POLICIES} == {}


def test_every_import_of_a_capability_exists() -> None:
    functions = {
        name.partition("#")[0].partition("@")[0] + "#" + name.rpartition("#")[2] for name in _listed_policies()
    }
    functions |= {name.partition("#")[0] for name in functions}
    declared = {name for kind in KINDS for name in (*kind.imports, *kind.usable_imports)}
    assert declared - functions == set()


def test_every_reachable_function_has_a_checked_type() -> None:
    decided = _listed_policies()
    for interface in (*host.interfaces(), *wasi.interfaces()):
        answering = {name for name in interface.functions if decided[f"{interface.name}#{name}"] != "unreachable"}
        assert answering == set(interface.signatures), interface.name


def test_each_import_matches_only_one_interface() -> None:
    names = [get_compatible_name(interface.name) for interface in (*host.interfaces(), *wasi.interfaces())]
    assert len(names) == len(set(names))
