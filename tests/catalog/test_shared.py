"""Hosts that share a catalog in PostgreSQL: the same tools and grants, and nothing that was written without the key."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import wasmrt.core.postgres
from tests.agent.approvals.processes import forking
from tests.catalog.conftest import KEY
from tests.postgres_server import PostgresServer
from tests.tiers import kills
from wasmrt.catalog import Catalog, NewVersion
from wasmrt.catalog import _catalog as catalog_module
from wasmrt.core.errors import InstallError, IntegrityError, NotInstalledError
from wasmrt.core.postgres import Postgres

Make = Callable[..., NewVersion]
OLD, NEW = b"old bytes", b"new bytes" * 1000


@pytest.fixture
def host(tmp_path: Path, postgres: Postgres) -> Callable[..., Catalog]:
    """Return a function that makes the catalog of a host."""
    return lambda name, key=KEY: Catalog(tmp_path / name, (postgres, lambda: key))


def test_hosts_have_the_same_tools_grants_and_components(host: Callable[..., Catalog], draft: Make) -> None:
    here, there = host("a"), host("b")
    added = here.add(draft("echo", OLD), '{"http": {}}', for_agents=True)
    assert there.tools() == here.tools() and there.get("echo") == added
    assert there.read(added).data == OLD
    narrowed = there.regrant(there.get("echo"), "{}")
    assert here.get("echo") == narrowed and here.get("echo").grant == "{}"
    with pytest.raises(InstallError, match="changed by another process"):
        here.regrant(added, '{"http": {}}')
    before = there.trace()
    here.remove("echo")
    assert there.trace() != before and not there.has("echo")
    with pytest.raises(NotInstalledError):
        there.get("echo")


def test_a_component_is_read_from_the_database_once(
    host: Callable[..., Catalog], draft: Make, tmp_path: Path, postgres: Postgres
) -> None:
    version = host("a").add(draft("echo", NEW), "{}")
    assert host("b").read(version).data == NEW
    with postgres.connect("wasmrt_components") as db:
        db.execute("DELETE FROM component")
    assert host("b").read(version).data == NEW and host("b").verify()[0].problem is None
    with pytest.raises(IntegrityError, match="is missing"):
        host("c").read(version)


@pytest.mark.parametrize("changed", [b"other bytes", OLD[:-1] + b"!", b""])
def test_changed_bytes_in_the_database_are_refused(
    host: Callable[..., Catalog], draft: Make, postgres: Postgres, changed: bytes, tmp_path: Path
) -> None:
    version = host("a").add(draft("echo", OLD), "{}")
    with postgres.connect("wasmrt_components") as db:
        db.execute("UPDATE component SET data = %s", (changed,))
    with pytest.raises(IntegrityError):
        host("b").read(version)
    assert not list((tmp_path / "b").rglob("*.wasm"))


CHANGES = [
    "UPDATE catalog SET data = set_byte(data, 5000, get_byte(data, 5000) # 1)",
    "UPDATE catalog SET revision = revision + 1",
    "UPDATE catalog SET code = sha256('x')",
    "UPDATE catalog SET data = ''",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_catalog_changed_without_the_key_is_refused_and_not_overwritten(
    host: Callable[..., Catalog], draft: Make, postgres: Postgres, change: str
) -> None:
    here, there = host("a"), host("b")
    here.add(draft("echo", OLD), "{}")
    with postgres.connect("wasmrt_catalog") as db:
        db.execute(change.encode())
    for use in (
        there.tools, lambda: there.get("echo"), there.verify, lambda: here.add(draft("other", NEW), "{}"),
        lambda: here.remove("echo"),
    ):  # fmt: skip
        with pytest.raises(IntegrityError, match="key of this host"):
            use()


def test_a_host_with_another_key_neither_reads_nor_writes(host: Callable[..., Catalog], draft: Make) -> None:
    host("a").add(draft("echo", OLD), "{}")
    other = host("b", bytes(32))
    with pytest.raises(IntegrityError):
        other.tools()
    with pytest.raises(IntegrityError):
        other.add(draft("evil", NEW), '{"http": {}}')
    assert [tool.name for tool in host("a").tools()] == ["echo"]


def test_installations_on_several_hosts_at_once_are_all_stored(host: Callable[..., Catalog], draft: Make) -> None:
    def install(name: str) -> None:
        for n in range(5):
            host(name).add(draft(f"{name}{n}", f"{name}{n}".encode()), "{}")

    threads = [threading.Thread(target=install, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = host("e")
    assert [tool.name for tool in found.tools()] == sorted(f"{name}{n}" for name in "abcd" for n in range(5))
    assert all(finding.problem is None for finding in found.verify())


def test_a_sweep_removes_components_without_a_version(
    host: Callable[..., Catalog], draft: Make, postgres: Postgres
) -> None:
    here, there = host("a"), host("b")
    there.read(here.add(draft("echo", OLD), "{}"))
    here.remove("echo")
    with postgres.connect("wasmrt_components") as db:
        assert db.execute("SELECT * FROM component").fetchall() == []
        db.execute("INSERT INTO component VALUES ('stray', 'x')")
    assert there.sweep() == 2 and there.sweep() == 0


def test_without_the_database_no_tool_is_found(
    host: Callable[..., Catalog], draft: Make, postgres_server: PostgresServer
) -> None:
    here = host("a")
    here.add(draft("echo", OLD), "{}")
    postgres_server.stop()
    try:
        for use in (here.tools, here.trace, lambda: here.get("echo"), lambda: here.add(draft("echo", NEW), "{}")):
            with pytest.raises(InstallError) as caught:
                use()
            assert caught.value.code == "catalog"
    finally:
        postgres_server.start()
    assert here.get("echo").number == 1


@pytest.mark.ci("kills")
@pytest.mark.parametrize("change", ["first", "update", "wait", "remove"])
def test_a_killed_change_leaves_the_old_or_the_new_catalog_on_all_hosts(
    host: Callable[..., Catalog], draft: Make, change: str
) -> None:
    changes: dict[str, Callable[[Catalog], object]] = {
        "first": lambda catalog: catalog.add(draft("echo", NEW), "{}"),
        "update": lambda catalog: catalog.add(draft("echo", NEW), "{}"),
        "wait": lambda catalog: catalog.add(draft("echo", NEW), None),
        "remove": lambda catalog: catalog.remove("echo"),
    }
    states: set[str] = set()
    chance = random.Random(7)
    host("a").tools()  # creates the tables
    for _ in range(kills()):
        here = host("a")
        if here.has("echo"):
            here.remove("echo")
        if change != "first":
            here.add(draft("echo", OLD), "{}")
        kill_at_line(chance.randrange(1, 800), lambda: changes[change](host("a")))
        there = host("b")
        versions = there.versions("echo") if there.has("echo") else ()
        states.add(str([(version.number, version.active, version.grant) for version in versions]))
        assert all(there.read(version).digest == version.digest for version in versions)
        assert there.add(draft("echo", NEW), "{}").active
    assert (
        states
        <= {
            "first": {"[]", "[(1, True, '{}')]"},
            "update": {"[(1, True, '{}')]", "[(1, False, '{}'), (2, True, '{}')]"},
            "wait": {"[(1, True, '{}')]", "[(1, True, '{}'), (2, False, None)]"},
            "remove": {"[(1, True, '{}')]", "[]"},
        }[change]
    )
    assert len(states) == 2


def kill_at_line(number: int, work: Callable[[], object]) -> None:
    """Run `work` in a process that is killed at a line of the catalog or of the database; wait for its end."""
    traced = (str(Path(catalog_module.__file__).parent), wasmrt.core.postgres.__file__)
    with forking():
        child = os.fork()
    if child == 0:
        count = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal count
            if not frame.f_code.co_filename.startswith(traced):
                return None
            if event == "line":
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        code = 1
        try:
            sys.settrace(trace)
            work()
            code = 0
        finally:
            sys.settrace(None)
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, -signal.SIGKILL)
