"""What a guest can import is a list on paper: it grows only together with a decision about what bounds it."""

from __future__ import annotations

from pathlib import Path

from wasmrt.sandbox.guest import wasi
from wasmrt.sandbox.guest import worlds as host
from wasmrt.sandbox.guest.engine import track

_LIST = Path(__file__).with_name("imports.txt")
_POLICIES = frozenset(
    (
        *("clock", "deadline", "empty", "ends-call", "grant-http", "grant-secrets", "grant-tools", "grant-workspace"),
        *("handles-capped", "log-capped", "own-data", "random-capped", "refused", "unreachable"),
    )
)


def _on_paper() -> dict[str, str]:
    """From `interface#function` to the policy; handle types are their own."""
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


def test_everything_a_guest_can_import_is_listed_with_what_bounds_it() -> None:
    offered = set()
    for interface in (*host.interfaces(), *wasi.interfaces()):
        offered |= {f"{interface.name}#{name}" for name in (*interface.functions, *interface.resources)}
    assert set(_on_paper()) == offered


def test_every_policy_is_one_of_the_known_ones() -> None:
    functions = {name: policy for name, policy in _on_paper().items() if policy != name.rpartition("#")[2]}
    assert {name: policy for name, policy in functions.items() if policy not in _POLICIES} == {}


def test_what_answers_has_a_type_that_is_checked() -> None:
    decided = _on_paper()
    for interface in (*host.interfaces(), *wasi.interfaces()):
        answering = {name for name in interface.functions if decided[f"{interface.name}#{name}"] != "unreachable"}
        assert answering == set(interface.signatures), interface.name


def test_no_two_interfaces_answer_for_one_import() -> None:
    names = [track(interface.name) for interface in (*host.interfaces(), *wasi.interfaces())]
    assert len(names) == len(set(names))
