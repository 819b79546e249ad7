"""Rules that every kind of capability follows."""

from __future__ import annotations

import pytest

from wasmrt.capabilities import KINDS, Capabilities, Capability
from wasmrt.capabilities._capabilities import find_kind
from wasmrt.capabilities.file import CapabilityFile, format_file, parse
from wasmrt.capabilities.kinds._capability import ListedCapability


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_capability_allows_nothing_and_can_be_written_and_read(kind: type[Capability]) -> None:
    empty = kind()
    granted = Capabilities.of([empty])
    assert empty.is_empty() and empty.effects() == frozenset() and not list(empty.additions())
    assert parse(format_file(CapabilityFile(capabilities=granted))).capabilities == granted


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_found_by_its_list_and_decides_like_a_grant(kind: type[Capability]) -> None:
    assert find_kind(str(kind.grant_list)) is kind and kind.grant_list.section == kind.section
    decision = Capabilities.of([kind()]).explain(kind, "a")
    assert not decision.allowed and decision.capability == kind.section
    assert decision == kind.decide(kind(), "a") and decision.hint


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_name_in_plain_words(kind: type[Capability]) -> None:
    numbers = kind().numbers() if issubclass(kind, ListedCapability) else {}
    assert {path.rpartition(".")[2] for path in numbers} == set(kind.number_names)


def test_kinds_share_no_name() -> None:
    for names in (
        [kind.section for kind in KINDS],
        [kind.attribute for kind in KINDS],
        [kind.use[0] for kind in KINDS],
    ):
        assert len(set(names)) == len(names)


def test_an_unknown_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown list 'http\.credentials'"):
        find_kind("http.credentials")
