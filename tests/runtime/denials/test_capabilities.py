"""Denials of capabilities: adding the line named by each to the capability file allows the use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing import FakeCall, FakeResolver, MemorySecrets

from tests.runtime.denials.cases import (
    ALLOWED_BY_A_LINE,
    HTTP,
    IN_THE_WORKSPACE,
    KEY,
    ON_THE_WAY_OUT,
    SAID_TO_BE_NOT_ALLOWED,
    Case,
)
from tests.runtime.denials.lines import grant_of, in_capability_file, in_configuration, read_configuration
from wasmrt.capabilities import SOME_TOOL, WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError, NotAuthorizedError
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import EgressGateway, HttpRequest, NetworkConfig
from wasmrt.egress.gateway._model import HttpFailure
from wasmrt.egress.secrets import DEFAULT_USER, Secret, UserSecrets
from wasmrt.runtime.workspace import WorkspaceWriter

PAGE = "https://api.example.com/v1/"
PUBLIC = {"api.example.com": ["93.184.216.34"]}


def both_are_told(decision: Decision) -> str:
    """Return the step shown to users with the rule; models see only the rule."""
    error = NotAuthorizedError.of(decision)
    assert decision.hint and decision.rule in str(error) and decision.hint in str(error)
    assert decision.rule in error.for_model() and decision.hint not in error.for_model()
    return decision.hint


@pytest.mark.parametrize("case", ALLOWED_BY_A_LINE.values(), ids=ALLOWED_BY_A_LINE)
def test_the_line_named_by_a_denial_allows_the_use(case: Case) -> None:
    denied = case.use(grant_of(case.document))
    assert (denied.allowed, denied.reason) == (False, case.reason)
    step = both_are_told(denied).replace(SOME_TOOL, "the-search")
    assert case.use(grant_of(in_capability_file(case.document, step))).allowed, step


@pytest.mark.parametrize("case", SAID_TO_BE_NOT_ALLOWED.values(), ids=SAID_TO_BE_NOT_ALLOWED)
def test_denials_without_an_allowing_line_name_an_alternative(case: Case) -> None:
    denied = case.use(grant_of(case.document))
    assert (denied.allowed, denied.reason) == (False, case.reason)
    step = both_are_told(denied)
    assert not step.startswith(("add ", "raise ")), step


# -- egress ------------------------------------------------------------------------------------------------------------


class SentError(Exception):
    """The request would have been sent."""


class Sending:
    def send(self, *_: Any) -> Any:
        raise SentError

    def close(self) -> None:
        pass


class Way:
    """A gateway and the grant of a call; `send` returns the refusal, or None if the request was sent."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"http": HTTP}
        self.networks: tuple[str, ...] = ()
        self.answers = PUBLIC
        self.store = MemorySecrets()
        self.requests = 50
        self.gateway = EgressGateway()

    def open(self) -> None:
        """Open a gateway that has counted no requests."""
        resolver = FakeResolver(self.answers)
        self.gateway = EgressGateway(
            NetworkConfig(resolver=resolver, transport=Sending(), unsafe_allowed_networks=self.networks)
        )

    def send(self, url: str = PAGE, **request: Any) -> Decision | None:
        secrets = UserSecrets(self.store, DEFAULT_USER)
        call = FakeCall(grant_of(self.document), secrets=secrets, requests_left=self.requests)
        try:
            self.gateway.open(call, HttpRequest("GET", url, **request))
        except SentError:
            return None
        except HttpFailure as failure:
            assert failure.decision is not None and failure.hint == failure.decision.hint
            return failure.decision
        raise AssertionError("no response was scripted")

    def refused(self, reason: Reason, url: str = PAGE, **request: Any) -> str:
        """Return the step that a refusal names."""
        decision = self.send(url, **request)
        assert decision is not None and decision.reason is reason
        return both_are_told(decision)


@pytest.fixture
def way() -> Way:
    way = Way()
    way.open()
    return way


def test_only_the_operators_line_allows_a_private_address(way: Way, tmp_path: Path) -> None:
    way.answers = {"api.example.com": ["10.1.0.5"]}
    way.open()
    step = way.refused(Reason.ADDRESS_NOT_ALLOWED)
    assert "no capability file can allow it" in step
    config = in_configuration({}, step)
    assert config == {"network": {"unsafe_allowed_networks": ["10.1.0.5/32"]}}
    way.networks = tuple(map(str, read_configuration(tmp_path, config).network.unsafe_allowed_networks))
    way.open()
    assert way.send() is None


def test_an_oversized_request_names_the_limit_to_raise(way: Way) -> None:
    way.document = {"http": HTTP | {"max_request_bytes": 1000}}
    step = way.refused(Reason.REQUEST_TOO_LARGE, body=b"x" * 1500)
    way.document = in_capability_file(way.document, step)
    assert way.send(body=b"x" * 1500) is None


def test_an_exceeded_request_rate_names_its_setting(way: Way) -> None:
    way.document = {"http": HTTP | {"rate_limit": {"requests_per_minute": 1}}}
    assert way.send() is None
    way.document = in_capability_file(way.document, way.refused(Reason.RATE_LIMITED))
    assert way.send() is None


def test_a_missing_credential_names_the_command_that_sets_it(way: Way) -> None:
    way.document = {"http": HTTP | {"credentials": KEY}}
    step = way.refused(Reason.CREDENTIAL_MISSING)
    assert step == "run: wasmrt secret set k"
    way.store.set(DEFAULT_USER, step.split()[-1], Secret("long-enough-for-a-key"))
    assert way.send() is None


def test_a_denial_that_nothing_allows_says_that(way: Way) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    for reason, request in (
        (Reason.HEADER_NOT_ALLOWED, {"headers": (("Host", "other.example.com"),)}),
        (Reason.LEAK, {"body": token.encode()}),
    ):
        assert way.refused(reason, **request)
    way.requests = 0
    assert "no setting raises this limit" in way.refused(Reason.REQUEST_BUDGET)


# -- workspace ---------------------------------------------------------------------------------------------------------

WRITES: dict[str, tuple[Reason, dict[str, Any], Callable[[WorkspaceWriter, Any], Any], bool]] = {
    "removing": (Reason.REMOVE_NOT_ALLOWED, {}, lambda files, budget: files.remove("a.txt", budget), True),
    "a large file": (
        Reason.FILE_TOO_LARGE, {"max_file_bytes": 10}, lambda files, budget: files.write("b", b"x" * 99, budget), True,
    ),
    "many bytes": (
        Reason.WRITE_BUDGET, {"max_bytes": 10}, lambda files, budget: files.write("b", b"x" * 99, budget), True,
    ),
    "a name that is taken": (
        Reason.ALREADY_EXISTS, {}, lambda files, budget: files.make_directory("full", budget), False,
    ),
    "a full folder": (
        Reason.NOT_EMPTY, {"remove": True}, lambda files, budget: files.remove("full", budget, directory=True), False,
    ),
    "no folder": (Reason.NOT_FOUND, {}, lambda files, budget: files.write("no/b", b"x", budget), False),
    "a folder": (Reason.NOT_A_FILE, {}, lambda files, budget: files.write("full", b"x", budget), False),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "bounds", "change", "can_be_allowed"), WRITES.values(), ids=WRITES)
def test_a_refused_write_names_its_line_or_an_alternative(
    tmp_path: Path, reason: Reason, bounds: dict[str, Any], change: Callable[..., Any], can_be_allowed: bool
) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/b").write_text("b")
    document = {"workspace_write": {"allowed_prefixes": True} | bounds}

    def changed(document: dict[str, Any]) -> Decision | None:
        granted = grant_of(document).workspace_write
        assert isinstance(granted, WorkspaceWriteCapability)
        files = WorkspaceWriter(tmp_path, granted)
        try:
            change(files, files.new_budget(call_id="1", tool="tool", user="local"))
        except CapabilityDeniedError as error:
            return error.decision
        return None

    denied = changed(document)
    assert denied is not None and denied.reason is reason
    step = both_are_told(denied)
    if can_be_allowed:
        assert changed(in_capability_file(document, step)) is None, step


def test_every_listed_egress_and_workspace_denial_is_tested() -> None:
    assert {reason for reason, *_ in WRITES.values()} == IN_THE_WORKSPACE
    source = Path(__file__).read_text()
    assert all(f"Reason.{reason.name}" in source for reason in ON_THE_WAY_OUT)
