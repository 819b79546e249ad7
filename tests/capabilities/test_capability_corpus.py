"""Every row of the SSRF corpus, decided by `explain_http` alone."""

import json
from pathlib import Path

import pytest

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.core.errors import ConfigurationError

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpora" / "ssrf_train.jsonl"


def _decide(row: dict) -> bool:
    patterns = []
    for host in row["allowlist"]:
        try:
            patterns.append(EndpointPattern.host(host).with_schemes("https", "http"))
        except ConfigurationError:
            continue
    granted = Capabilities.none().with_http(patterns)
    asked = [row["url"], *row.get("redirects", [])]
    return all(granted.explain_http("GET", url, row.get("resolves_to")).allowed for url in asked)


def test_every_row_is_decided_as_expected():
    if not CORPUS.exists():
        pytest.skip(f"the corpus {CORPUS.name} is not beside this checkout")
    rows = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    wrong = {row["id"]: row["url"] for row in rows if _decide(row) != (row["expect"] == "allow")}
    assert wrong == {}
    assert len(rows) == 689


def test_an_address_outside_the_space_in_use_is_refused():
    granted = Capabilities.none().with_http([EndpointPattern.host("a.example")])
    assert "not-global-unicast" in granted.explain_http("GET", "https://a.example/", ["::1:0:0"]).rule
