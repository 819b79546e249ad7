"""Requests whose paths differ in some segments become one entry with a pattern."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.capabilities import EndpointPattern, HttpCapability, propose_patterns
from wasmrt.capabilities.kinds.http import generalize
from wasmrt.capabilities.model import endpoint_within
from wasmrt.core.model import Addition

HOST = "api.example.com"


def requests(*paths: str, methods: tuple[str, ...] = ("GET",)) -> list[EndpointPattern]:
    return [EndpointPattern(HOST, path, methods) for path in paths]


@pytest.mark.parametrize(
    ("seen", "proposed"),
    [
        (["/repos/a/b/issues/1", "/repos/a/b/issues/2"], ["/repos/a/b/issues/*"]),
        (["/repos/a/b/issues/1", "/repos/c/d/issues/2"], ["/repos/*/*/issues/*"]),
        (["/repos/a/b/issues/1", "/repos/a/b/issues/2", "/repos/c/d/issues/3"], ["/repos/*/*/issues/*"]),
        (["/v1/users/1", "/v1/teams/2"], ["/v1/users/1", "/v1/teams/2"]),
        (["/a", "/b"], ["/a", "/b"]),
        (["/v1/a", "/v1/a/b"], ["/v1/a", "/v1/a/b"]),
        (["/v1/a%2Fb", "/v1/c"], ["/v1/a%2Fb", "/v1/c"]),
        (["/v1/%2A", "/v1/c"], ["/v1/*"]),
        (["/v1/7", "/v1/"], ["/v1/7", "/v1/"]),
        (["/v1/7"], ["/v1/7"]),
    ],
)
def test_paths_that_differ_in_values_are_one_pattern(seen: list[str], proposed: list[str]) -> None:
    assert [each.entry.path_prefix for each in generalize(requests(*seen))] == proposed


def test_different_methods_and_hosts_stay_apart() -> None:
    one, two = requests("/v1/1"), requests("/v1/2", methods=("PATCH",))
    other = [EndpointPattern("b.example.com", "/v1/3", ("GET",)), EndpointPattern(HOST, path="/v1/4", methods=("GET",))]

    assert [each.entry for each in generalize([*one, *two, *other])] == [*one, *two, *other]


paths = st.lists(st.sampled_from(["a", "b", "1", "%2A", "a%2Fb", ""]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(paths, max_size=8))
def test_every_entry_is_covered_by_exactly_one_proposal(seen: list[str]) -> None:
    entries = list(dict.fromkeys(requests(*seen)))
    proposals = generalize(entries)

    covered = [each for proposal in proposals for each in proposal.seen]
    assert sorted(covered, key=repr) == sorted(entries, key=repr)
    assert all(endpoint_within(each, proposal.entry) for proposal in proposals for each in proposal.seen)


def test_a_proposal_lists_the_suggestions_that_it_replaces() -> None:
    additions = [Addition(HttpCapability.grant_list, each.as_line()) for each in requests("/v1/1", "/v1/2", "/v2/x/y")]

    (proposal,) = propose_patterns(additions)
    assert proposal.seen == tuple(additions[:2])
    assert proposal.as_dict()["entry"] == {"host": HOST, "path_prefix": "/v1/*", "methods": ["GET"]}
