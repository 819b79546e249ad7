"""Signed requests that start routines, and every request that is refused."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing import MemorySecrets

from tests.agent.routines.conftest import Model, add
from tests.interop.web.served import served
from wasmrt import ToolRegistry
from wasmrt.agent.approvals import DenyApprover
from wasmrt.agent.routines import Routine, RoutineEngine, RoutineStore
from wasmrt.egress.secrets import Secret
from wasmrt.interop.pages import WEBHOOKS, RoutineWebhooks, webhook_secret
from wasmrt.interop.web import Request, Response

NOW = 1_800_000_000
KEY = "correct horse battery staple"


class Site:
    """The webhooks of one routine, and a sender that knows its secret."""

    def __init__(self, folder: Path) -> None:
        self.model = Model()
        self.store = RoutineStore(folder / "routines.sqlite3", now=lambda: float(NOW))
        self.engine = RoutineEngine(self.store, ToolRegistry(approver=DenyApprover()), self.model)
        self.secrets = MemorySecrets()
        self.webhooks = RoutineWebhooks(self.engine, self.secrets, now=lambda: float(NOW))
        self.routine = self.add("report", "webhook")

    def add(self, name: str, trigger: str) -> Routine:
        routine: Routine = add(self.store, name, trigger_type=trigger, cooldown_secs=0)
        self.secrets.set("ann", webhook_secret(routine.id), Secret(KEY))
        return routine

    def headers(self, body: bytes, key: str = KEY, timestamp: str = str(NOW)) -> tuple[tuple[str, str], ...]:
        mac = hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        return (("x-wasmrt-timestamp", timestamp), ("x-wasmrt-signature", f"sha256={mac}"))

    def send(self, body: bytes = b"hello", *, path: str = "", method: str = "POST", **signed: Any) -> Response:
        headers = signed.pop("headers", None) or self.headers(body, **signed)
        request = Request(
            method=method, path=path or WEBHOOKS + self.routine.id, query="", headers=headers, body=body, client="::1"
        )
        return asyncio.run(self.webhooks(request))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.engine.close()


def test_a_signed_request_starts_a_run_with_its_body_as_untrusted_text(site: Site) -> None:
    with served(site.webhooks) as server:
        headers = [f"{name}: {value}" for name, value in site.headers(b"deployed")]
        answer = server.ask(
            f"POST {WEBHOOKS}{site.routine.id} HTTP/1.1", *headers, "Content-Length: 8", body=b"deployed"
        )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 202 ")
    site.engine.wait(site.store.history("ann", "report", 1)[0])
    run = site.store.history("ann", "report", 1)[0]
    assert (run.id, run.trigger_type, run.state) == (json.loads(body)["run_id"], "webhook", "ok")
    assert "deployed" in site.model.tasks[0].context


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "wrong"},
        {"key": ""},
        {"timestamp": str(NOW - 301)},
        {"timestamp": str(NOW + 301)},
        {"timestamp": "soon"},
        {"timestamp": "9" * 5000},
        {"headers": (("x-wasmrt-timestamp", str(NOW)),)},
        {"headers": (("x-wasmrt-timestamp", str(NOW)), ("x-wasmrt-signature", "sha256=\u00e9"))},
        {"path": WEBHOOKS + "0" * 32},
        {"path": WEBHOOKS},
    ],
)
def test_a_request_without_a_valid_recent_signature_is_refused(site: Site, changes: dict[str, Any]) -> None:
    refused = site.send(**changes)
    assert refused.status == 401
    assert refused == site.send(path=WEBHOOKS + "unknown")
    assert site.store.history("ann", "report", 1) == []


def test_a_signature_is_valid_for_its_body_only(site: Site) -> None:
    assert site.send(b"other", headers=site.headers(b"hello")).status == 401


def test_a_replayed_request_starts_no_second_run(site: Site) -> None:
    assert [site.send().status for _ in range(2)] == [202, 409]
    site.engine.close()
    assert len(site.store.history("ann", "report", 50)) == 1


def test_a_routine_with_another_trigger_has_no_webhook(site: Site) -> None:
    manual = site.add("by hand", "manual")
    assert site.send(path=WEBHOOKS + manual.id).status == 401


def test_a_webhook_without_a_secret_is_refused(site: Site) -> None:
    site.secrets.remove("ann", webhook_secret(site.routine.id))
    assert site.send().status == 401


def test_a_disabled_routine_refuses_its_webhook(site: Site) -> None:
    site.store.update(site.routine, site.routine.definition, enabled=False, approved=False)
    assert site.send().status == 409


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("PUT", 405)])
def test_only_post_starts_a_run(site: Site, method: str, status: int) -> None:
    assert site.send(method=method).status == status


@pytest.mark.parametrize(("body", "status"), [(b"\xff", 400), (b"x" * 70_000, 413)])
def test_a_body_that_is_not_a_short_text_is_refused(site: Site, body: bytes, status: int) -> None:
    assert site.send(body).status == status
