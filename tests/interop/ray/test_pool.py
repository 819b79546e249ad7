"""Bulk calls on a Ray cluster, with real nodes that have an address each."""

from __future__ import annotations

import json

import pytest

from tests.interop.ray.cluster import Cluster

CALLS = 10_000

pytestmark = pytest.mark.ci("peers")


def test_results_come_in_order_and_errors_keep_their_codes(cluster: Cluster) -> None:
    found = cluster.run("bulk")
    assert found == {
        "places": True,
        "answers": True,
        "codes": {"invalid-parameters": 50},
        "starved": ["fuel-exhausted"],
    }
    verified = cluster.verify_receipts("bulk")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_every_reading_call_is_answered_when_a_node_dies(cluster: Cluster) -> None:
    assert _kill_in_the_middle(cluster, "read", node=2) == {"places": CALLS, "codes": {"ok": CALLS}}


def test_a_writing_call_is_answered_or_reported_as_unknown_when_a_node_dies(cluster: Cluster) -> None:
    found = _kill_in_the_middle(cluster, "write", node=3)
    codes = found["codes"]
    assert found["places"] == sum(codes.values()) == CALLS
    assert set(codes) == {"ok", "outcome-unknown"}
    assert codes["outcome-unknown"] <= 2 * 8, "two actors on the node, with eight calls each"


def test_a_client_without_the_token_is_refused(cluster: Cluster) -> None:
    assert "cannot connect" in cluster.run("connect", RAY_AUTH_MODE="disabled", RAY_AUTH_TOKEN="")["error"]


def test_a_cluster_that_announces_another_address_is_refused(cluster: Cluster) -> None:
    found = cluster.run("connect", address="127.0.0.1:6379")
    assert found["error"].startswith("the cluster at 127.0.0.1:6379 announces other addresses: 10.77.0.1")
    assert "--node-ip-address=127.0.0.1" in found["hint"]


def test_a_cluster_without_tokens_is_refused(open_cluster: Cluster) -> None:
    assert "does not require a token" in open_cluster.run("connect")["error"]


def _kill_in_the_middle(cluster: Cluster, scenario: str, *, node: int) -> dict[str, object]:
    with cluster.start_run(scenario) as run:
        assert run.stdout is not None
        assert "kill\n" in iter(run.stdout.readline, "")
        cluster.kill(node)
        *_, answer = run.stdout
    found: dict[str, object] = json.loads(answer)
    return found
