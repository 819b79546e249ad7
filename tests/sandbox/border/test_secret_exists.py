"""A guest can check whether a granted secret of its user is set; all other names do not exist for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from wasmrt.testing import MemorySecrets

from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.relays import secret_asker
from wasmrt import Capabilities, Reason
from wasmrt.egress.secrets import Secret


def _every_import() -> list[tuple[str, str]]:
    """Interface and function of every import that answers about secrets, from the list of all imports."""
    found: list[tuple[str, str]] = []
    interface = ""
    for line in Path(__file__).parents[1].joinpath("imports.txt").read_text().splitlines():
        if not line.startswith((" ", "#")):
            interface = line
        elif line.endswith("grant-secrets"):
            found.append((interface, line.split()[0]))
    return found


IMPORTS = _every_import()
IDS = [interface for interface, _ in IMPORTS]


@pytest.fixture
def store() -> MemorySecrets:
    store = MemorySecrets()
    store.set("ann", "mail_token", Secret("a value that is long enough"))
    store.set("ann", "chat_token", Secret("another value, long enough"))
    store.set("bob", "bobs_token", Secret("a third value, long enough"))
    store.set("ann", "old_token", Secret("a value of long ago, expired"), expires_at=1.0)
    return store


def test_all_worlds_and_versions_have_a_secret_import() -> None:
    assert sorted(IDS) == [
        "near:agent/host",
        "near:agent/host@0.2.0",
        "near:agent/host@0.3.0",
        "near:agent/host@0.4.1",
        "wasmrt:tool/secrets@0.1.0",
    ]


@pytest.mark.parametrize(("interface", "function"), IMPORTS, ids=IDS)
@pytest.mark.parametrize(
    ("granted", "name", "answer", "refused"),
    [
        (("mail_token",), "mail_token", True, None),
        (("mail_*",), "mail_token", True, None),
        (("*",), "chat_token", True, None),
        (("absent_token",), "absent_token", False, None),
        (("bobs_token",), "bobs_token", False, None),
        (("old_token",), "old_token", False, None),
        (("mail_token",), "chat_token", False, Reason.SECRET_NOT_ALLOWED),
        (("mail_*",), "chat_token", False, Reason.SECRET_NOT_ALLOWED),
        ((), "mail_token", False, Reason.SECRET_NOT_ALLOWED),
        (None, "mail_token", False, Reason.NOT_GRANTED),
    ],
)
def test_secret_exists_is_true_only_for_granted_secrets_of_the_user(
    start: Start,
    store: MemorySecrets,
    interface: str,
    function: str,
    granted: tuple[str, ...] | None,
    name: str,
    answer: bool,
    refused: Reason | None,
) -> None:
    grant = Capabilities.none() if granted is None else Capabilities.none().with_secrets(granted)
    ask = only_tool(start(secrets=store), secret_asker(interface, function).component(), grant)
    output = ask.execute({"name": name}, user="ann")
    assert output.result is answer
    assert [decision.reason for decision in output.decisions] == ([] if refused is None else [refused])


@pytest.mark.parametrize(("interface", "function"), IMPORTS, ids=IDS)
def test_a_runtime_without_secrets_has_none(start: Start, interface: str, function: str) -> None:
    ask = only_tool(start(), secret_asker(interface, function).component(), Capabilities.none().with_secrets(["*"]))
    assert ask.execute({"name": "mail_token"}).result is False


def test_invalid_secret_names_do_not_exist(start: Start, store: MemorySecrets) -> None:
    ask = only_tool(
        start(secrets=store), secret_asker(*IMPORTS[0]).component(), Capabilities.none().with_secrets(["*"])
    )
    for name in ("", "mail token", "../mail_token", "mail_token\0", "x" * 10_000):
        assert ask.execute({"name": name}, user="ann").result is False
