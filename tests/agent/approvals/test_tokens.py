"""Confirmation tokens: valid for a short time, and only for the confirmed call."""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.processes import Killed, Step, forking
from tests.postgres_server import Place, PostgresServer, StorePlace, on_a_file
from tests.tiers import kills
from wasmrt.agent.approvals import ConfirmationTokens, Redeemed, params_digest
from wasmrt.agent.approvals import _tokens as module
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ApprovalError, ConfigurationError, NotAuthorizedError, SecretNotFoundError
from wasmrt.core.postgres import Postgres

PAIRS = int(os.environ.get("WASMRT_TOKEN_PAIRS", "40"))
DIGEST = params_digest({"path": "a"})
CALL: dict[str, Any] = {
    "trace": "t1",
    "tool": "write_file",
    "effects": [Effect.WRITE_FILESYSTEM],
    "params_digest": DIGEST,
}
TOKEN: dict[str, Any] = {
    "trace": "t1",
    "tools": ["write_file", "append_file"],
    "scopes": [Effect.WRITE_FILESYSTEM, Effect.READ_FILESYSTEM],
    "params_digest": DIGEST,
    "ttl_seconds": 60,
}


class Machine:
    """A machine whose clock can be set, and which can be rebooted."""

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self.wall, self.boot, self.since_boot = 1_000_000.0, "first", 100.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.since_boot += seconds

    def tokens(self, folder: Path) -> ConfirmationTokens:
        return ConfirmationTokens(
            self._place(folder / "tokens.sqlite3"),
            folder / "token.key",
            wall=lambda: self.wall,
            boot=lambda: (self.boot, self.since_boot),
        )


@pytest.fixture
def machine(store_place: StorePlace) -> Machine:
    return Machine(store_place)


@pytest.fixture
def tokens(machine: Machine, tmp_path: Path) -> ConfirmationTokens:
    return machine.tokens(tmp_path / "data")


def refusal(tokens: ConfirmationTokens, token: Any, **changed: Any) -> str:
    with pytest.raises(NotAuthorizedError) as caught:
        tokens.redeem(token, **(CALL | changed))
    assert caught.value.hint
    assert str(token)[:20] not in str(caught.value) or not token
    return caught.value.code


def test_a_token_is_valid_once_for_the_confirmed_call(tokens: ConfirmationTokens) -> None:
    token = tokens.issue(**TOKEN)
    used = tokens.redeem(token, **CALL)
    assert isinstance(used, Redeemed)
    assert (used.trace, used.tools, used.uses_left) == ("t1", ("append_file", "write_file"), 0)
    assert refusal(tokens, token) == "token-used"
    assert refusal(tokens, token) == "token-used"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"trace": "t2"}, "token-trace"),
        ({"tool": "delete_file"}, "token-tool"),
        ({"effects": [Effect.WRITE_FILESYSTEM, Effect.NETWORK]}, "token-scope"),
        ({"effects": list(Effect)}, "token-scope"),
        ({"params_digest": params_digest({"path": "b"})}, "token-params"),
        ({"params_digest": None}, "token-params"),
    ],
)
def test_a_token_for_another_call_is_rejected_and_stays_unused(
    tokens: ConfirmationTokens, changed: dict[str, Any], code: str
) -> None:
    token = tokens.issue(**TOKEN)
    assert refusal(tokens, token, **changed) == code
    tokens.redeem(token, **CALL)


def test_a_token_for_any_params_must_be_requested(tokens: ConfirmationTokens) -> None:
    token = tokens.issue(**TOKEN | {"params_digest": None})
    tokens.redeem(token, **CALL | {"params_digest": params_digest({"path": "b"})})


def test_a_modified_or_foreign_token_is_rejected(tokens: ConfirmationTokens, machine: Machine, tmp_path: Path) -> None:
    token = tokens.issue(**TOKEN)
    for at, letter in enumerate(token):
        other = "A" if letter != "A" else "B"
        assert refusal(tokens, token[:at] + other + token[at + 1 :]) == "token-signature"
    prefix, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    wider = base64.urlsafe_b64encode(json.dumps(claims | {"uses": 2}).encode()).decode().rstrip("=")
    foreign = machine.tokens(tmp_path / "foreign").issue(**TOKEN)
    changed = (f"{prefix}.{wider}.{signature}", f"{prefix}.{body}.", f"{body}.{signature}", f"{token}=", f" {token}")
    for text in (*changed, foreign, "", ".", "x", "\ud800", "x" * 100_000, None, 7, token.encode()):
        assert refusal(tokens, text) == "token-signature"
    tokens.redeem(token, **CALL)


def test_a_token_expires(tokens: ConfirmationTokens, machine: Machine) -> None:
    token, other = tokens.issue(**TOKEN), tokens.issue(**TOKEN)
    machine.passes(59.9)
    tokens.redeem(token, **CALL)
    machine.passes(0.2)
    assert refusal(tokens, other) == "token-expired"
    assert refusal(tokens, token) == "token-expired"


def test_setting_the_clock_back_does_not_extend_a_token(tokens: ConfirmationTokens, machine: Machine) -> None:
    token = tokens.issue(**TOKEN)
    machine.passes(30)
    machine.wall -= 1_000
    machine.passes(31)
    assert refusal(tokens, token) == "token-expired"


def test_an_expired_token_stays_expired_after_reboot_with_an_earlier_clock(
    tokens: ConfirmationTokens, machine: Machine
) -> None:
    token = tokens.issue(**TOKEN)
    machine.passes(61)
    assert refusal(tokens, token) == "token-expired"
    machine.boot, machine.since_boot, machine.wall = "second", 1.0, 1_000_000.0
    assert refusal(tokens, token) == "token-expired"


def test_hosts_that_share_store_and_key_share_tokens(store_place: StorePlace, tmp_path: Path) -> None:
    first, second = Machine(store_place), Machine(store_place)
    second.boot, second.since_boot = "another", 7.0
    a, b = first.tokens(tmp_path), second.tokens(tmp_path)
    token = a.issue(**TOKEN)
    b.redeem(token, **CALL)
    assert refusal(a, token) == "token-used"
    other = ConfirmationTokens(store_place(tmp_path / "tokens.sqlite3"), lambda: bytes(32))
    assert refusal(other, a.issue(**TOKEN)) == "token-signature"


def test_tokens_expire_if_the_clocks_of_all_hosts_are_set_back(store_place: StorePlace, tmp_path: Path) -> None:
    hosts = Machine(store_place), Machine(store_place)
    hosts[1].boot, hosts[1].since_boot = "another", 7.0
    a, b = (host.tokens(tmp_path) for host in hosts)
    token = a.issue(**TOKEN)
    for host in hosts:
        host.wall -= 1_000
    for _ in range(7):
        assert refusal(a, "") == refusal(b, "") == "token-signature"
        for host in hosts:
            host.passes(10)
        a.issue(**TOKEN)
        b.issue(**TOKEN)
    assert refusal(b, token) == "token-expired"


def test_a_key_that_cannot_be_read_is_an_error(store_place: StorePlace, tmp_path: Path) -> None:
    def unset() -> bytes:
        raise SecretNotFoundError("the secret is not set")

    for key, reason in ((unset, "the secret is not set"), (lambda: b"short", "expected a key of 32 bytes, got 5")):
        tokens = ConfirmationTokens(store_place(tmp_path / "t.sqlite3"), key)
        for use in (tokens.check, lambda tokens=tokens: tokens.issue(**TOKEN)):
            with pytest.raises(ApprovalError, match=reason):
                use()
        assert refusal(tokens, "x") == "token-store"


def test_without_the_database_no_token_is_accepted(postgres_server: PostgresServer, postgres: Postgres) -> None:
    tokens = ConfirmationTokens(postgres, lambda: bytes(32))
    token = tokens.issue(**TOKEN)
    postgres_server.stop()
    try:
        assert refusal(tokens, token) == "token-store"
        with pytest.raises(ApprovalError):
            tokens.issue(**TOKEN)
    finally:
        postgres_server.start()
    tokens.redeem(token, **CALL)
    assert refusal(tokens, token) == "token-used"


def test_a_token_remains_valid_after_a_reboot(tokens: ConfirmationTokens, machine: Machine) -> None:
    token = tokens.issue(**TOKEN)
    machine.boot, machine.since_boot = "second", 9_000.0
    machine.wall += 30
    tokens.redeem(token, **CALL)


def test_a_used_token_stays_used_if_the_clock_is_set_back(tokens: ConfirmationTokens, machine: Machine) -> None:
    token = tokens.issue(**TOKEN)
    tokens.redeem(token, **CALL)
    machine.wall += 3600
    tokens.redeem(tokens.issue(**TOKEN), **CALL)  # expired entries are deleted
    machine.wall -= 3600
    assert refusal(tokens, token) == "token-expired"


def test_a_clock_set_ahead_expires_tokens_but_not_new_ones(tokens: ConfirmationTokens, machine: Machine) -> None:
    old = tokens.issue(**TOKEN)
    machine.wall += 10_000_000
    new = tokens.issue(**TOKEN)
    machine.wall -= 10_000_000
    assert refusal(tokens, old) == "token-expired"
    machine.passes(59)
    tokens.redeem(new, **CALL)
    late = tokens.issue(**TOKEN)
    machine.passes(61)
    assert refusal(tokens, late) == "token-expired"


def test_without_a_boot_id_the_latest_time_is_used(tokens: ConfirmationTokens, machine: Machine) -> None:
    machine.boot = ""
    token = tokens.issue(**TOKEN)
    machine.wall += 61
    assert refusal(tokens, token) == "token-expired"
    machine.wall -= 61
    assert refusal(tokens, token) == "token-expired"


def test_the_real_clock_advances(tmp_path: Path, store_place: StorePlace) -> None:
    tokens = ConfirmationTokens(store_place(tmp_path / "t.sqlite3"), tmp_path / "t.key")
    tokens.redeem(tokens.issue(**TOKEN), **CALL)
    assert refusal(tokens, tokens.issue(**TOKEN | {"ttl_seconds": 1e-9})) == "token-expired"


def test_a_reusable_token_is_counted(tokens: ConfirmationTokens, machine: Machine, tmp_path: Path) -> None:
    token = tokens.issue(**TOKEN, reusable=True, max_uses=3)
    assert [tokens.redeem(token, **CALL).uses_left for _ in range(2)] == [2, 1]
    assert machine.tokens(tmp_path / "data").redeem(token, **CALL).uses_left == 0
    assert refusal(tokens, token) == "token-used"


@pytest.mark.parametrize(
    "changed",
    [
        {"trace": ""},
        {"tools": []},
        {"tools": [""]},
        {"tools": "write_file"},
        {"tools": [f"t{n}" for n in range(65)]},
        {"ttl_seconds": 0},
        {"ttl_seconds": -1},
        {"ttl_seconds": float("nan")},
        {"ttl_seconds": 86_401},
        {"max_uses": 2},
        {"reusable": True, "max_uses": 0},
        {"reusable": True, "max_uses": 1001},
        {"reusable": True, "max_uses": 1.5},
        {"trace": "t" * 9000},
    ],
)
def test_a_token_without_a_binding_is_not_issued(tokens: ConfirmationTokens, changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        tokens.issue(**TOKEN | changed)


@on_a_file
def test_losing_the_store_invalidates_its_tokens(tokens: ConfirmationTokens, tmp_path: Path) -> None:
    token = tokens.issue(**TOKEN)
    tokens.redeem(token, **CALL)
    for file in (tmp_path / "data").glob("tokens.sqlite3*"):
        file.unlink()
    assert refusal(tokens, token) == "token-signature"


@on_a_file
def test_tokens_are_rejected_if_uses_cannot_be_counted(tokens: ConfirmationTokens, tmp_path: Path) -> None:
    token = tokens.issue(**TOKEN)
    store, key = tmp_path / "data" / "tokens.sqlite3", tmp_path / "data" / "token.key"
    for path in (store, key):
        path.chmod(0o644)
        assert refusal(tokens, token) == "token-store"
        with pytest.raises(ApprovalError):
            tokens.issue(**TOKEN)
        path.chmod(0o600)
    tokens.redeem(token, **CALL)


def test_the_number_of_used_tokens_is_bounded(
    tokens: ConfirmationTokens, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LIVE_TOKENS", 2)
    for _ in range(2):
        tokens.redeem(tokens.issue(**TOKEN), **CALL)
    assert refusal(tokens, tokens.issue(**TOKEN)) == "token-store"
    machine.passes(61)
    tokens.redeem(tokens.issue(**TOKEN), **CALL)


def _redeems(place: Place, key: Path, issued: list[str], together: Any, results: Any) -> None:
    tokens, won = ConfirmationTokens(place, key), []
    for token in issued:
        together.wait(60)
        try:
            won.append(tokens.redeem(token, **CALL).id)
        except NotAuthorizedError as error:
            assert error.code == "token-used"
    results.put(won)


def test_only_one_of_two_concurrent_processes_uses_a_token(tmp_path: Path, store_place: StorePlace) -> None:
    place, key = store_place(tmp_path / "t.sqlite3"), tmp_path / "t.key"
    tokens = ConfirmationTokens(place, key)
    issued = [tokens.issue(**TOKEN | {"ttl_seconds": 3600}) for _ in range(PAIRS)]
    fork = multiprocessing.get_context("fork")
    together, results = fork.Barrier(2), fork.SimpleQueue()
    both = [fork.Process(target=_redeems, args=(place, key, issued, together, results)) for _ in range(2)]
    with forking():
        for process in both:
            process.start()
    won = [*results.get(), *results.get()]
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    print(f"{len(won)} successes of {2 * PAIRS} tries")
    assert len(won) == len(set(won)) == PAIRS


def _uses(place: Place, key: Path, issued: list[str], applied: Path) -> Callable[[Step], None]:
    def work(step: Step) -> None:
        tokens = ConfirmationTokens(place, key)
        for token in issued:
            step()
            try:
                used = tokens.redeem(token, **CALL)
            except NotAuthorizedError as error:
                assert error.code == "token-used"
                continue
            step()
            with applied.open("a") as file:
                file.write(used.id + "\n")

    return work


@pytest.mark.ci("kills")
def test_a_token_used_by_a_killed_process_stays_used(tmp_path: Path, store_place: StorePlace) -> None:
    place, key = store_place(tmp_path / "t.sqlite3"), tmp_path / "t.key"
    tokens = ConfirmationTokens(place, key)
    killed, applied, every = Killed(kills()), tmp_path / "applied", 0
    while killed.left > 0:
        issued = [tokens.issue(**TOKEN | {"ttl_seconds": 3600}) for _ in range(8)]
        every += len(issued)
        killed.run(_uses(place, key, issued, applied), _uses(place, key, issued, applied), most=8)
        assert {refusal(tokens, token) for token in issued} == {"token-used"}
    times = Counter(applied.read_text().split())
    assert set(times.values()) == {1}
    assert every - len(times) <= kills() - killed.left
