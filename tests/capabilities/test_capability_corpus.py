"""Check every row of the address corpus with `explain_http`, without DNS."""

import json
from pathlib import Path

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision

CORPUS = Path(__file__).parents[1] / "egress" / "gateway" / "addresses.jsonl"


def _decide(row: dict) -> list[Decision]:
    patterns = []
    for host in row["allowlist"]:
        try:
            patterns.append(EndpointPattern.host(host).with_schemes("https", "http"))
        except ConfigurationError:
            continue
    granted = Capabilities.none().with_http(patterns)
    requested = [row["url"], *row.get("redirects", [])]
    return [granted.explain_http("GET", url, row.get("resolves_to")) for url in requested]


def test_every_corpus_row_is_decided_for_the_expected_reason():
    rows = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
    wrong = []
    for row in rows:
        denied = [decision for decision in _decide(row) if not decision.allowed]
        if row["expect"] == "allow":
            wrong += [row] if denied else []
        elif not denied or denied[0].reason != row["reason"] or row.get("class", "") not in denied[0].rule:
            wrong.append(row)
    assert wrong == []
    assert len(rows) > 600


def test_an_address_in_unallocated_space_is_refused():
    granted = Capabilities.none().with_http([EndpointPattern.host("a.example")])
    assert "not-global-unicast" in granted.explain_http("GET", "https://a.example/", ["::1:0:0"]).rule
