"""Two hosts with one catalog: a tool installed on one is offered on the other, and a revoked grant ends there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.compiled import Installation
from tests.postgres_server import PostgresServer
from wasmrt import ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ToolError, UnknownToolError
from wasmrt.core.places import find_places
from wasmrt.core.postgres import Postgres

Run = Callable[..., Result]
GRANT = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}]}}
HELLO = {"message": "hi"}


@pytest.fixture
def hosts(
    home: Path, tmp_path: Path, sharing_code: Installation, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Make the two hosts, and return a function that makes `a` or `b` the current one."""
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "environment")
    monkeypatch.setenv("WASMRT_SECRET_CATALOG_KEY", "0123456789abcdef" * 4)
    folders = {"a": home, "b": sharing_code(tmp_path / "other")}

    def use(name: str) -> None:
        monkeypatch.setenv("WASMRT_HOME", str(folders[name]))

    for name in folders:
        use(name)
        config = find_places().config
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f'[database]\nurl = "{postgres.url}"\nkey_secret = "catalog_key"\ncatalog = true\n'
            "[tools.filter]\nallow_external = true\n"
        )
    return use


@pytest.fixture
def there(hosts: Callable[[str], None]) -> Iterator[ToolRegistry]:
    """The registry of host `b`, which stays the current one."""
    hosts("b")
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        yield registry


def test_a_tool_of_one_host_is_offered_on_the_other_until_it_is_removed(
    there: ToolRegistry, hosts: Callable[[str], None], wasmrt: Run, tool_file: Callable[..., Path]
) -> None:
    with pytest.raises(UnknownToolError):
        there.execute("parrot", HELLO)
    wasmrt("install", tool_file(), "--yes")
    assert there.execute("parrot", HELLO).result == "hi"
    assert "parrot" in wasmrt("list").stdout
    hosts("a")
    wasmrt("remove", "parrot", "--yes")
    hosts("b")
    with pytest.raises(UnknownToolError):
        there.execute("parrot", HELLO)


def test_a_grant_revoked_on_one_host_ends_at_the_next_call_on_the_other(
    there: ToolRegistry, hosts: Callable[[str], None], wasmrt: Run, tool_file: Callable[..., Path]
) -> None:
    hosts("a")
    wasmrt("install", tool_file(sidecar=GRANT), "--yes")
    hosts("b")
    assert there.execute("parrot", HELLO).result == "hi"
    assert Effect.NETWORK in there.traits("parrot").effects
    hosts("a")
    wasmrt("grant", "parrot", "--revoke", "http")
    hosts("b")
    assert there.execute("parrot", HELLO).result == "hi"
    assert Effect.NETWORK not in there.traits("parrot").effects


def test_calls_are_refused_while_the_catalog_cannot_be_read(
    there: ToolRegistry, wasmrt: Run, tool_file: Callable[..., Path], postgres_server: PostgresServer
) -> None:
    wasmrt("install", tool_file(), "--yes")
    postgres_server.stop()
    try:
        with pytest.raises(ToolError) as caught:
            there.execute("parrot", HELLO)
    finally:
        postgres_server.start()
    assert caught.value.code == "catalog"
    assert there.execute("parrot", HELLO).result == "hi"


def test_a_shared_catalog_requires_a_key(
    hosts: Callable[[str], None], wasmrt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts("a")
    config = find_places().config
    config.write_text(config.read_text().replace('key_secret = "catalog_key"\n', ""))
    assert "requires database.key_secret" in wasmrt("list", code=2).stderr
