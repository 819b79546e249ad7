"""Names have versions. A version has a digest, a request and a grant, and never runs without a grant."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres_server import on_a_file
from wasmrt.catalog import Catalog, NewVersion
from wasmrt.core.errors import (
    GrantRequiredError,
    InstallError,
    IntegrityError,
    NotInstalledError,
    WasmrtError,
)
from wasmrt.core.limits import MAX_TOOL_VERSIONS

Make = Callable[..., NewVersion]
OLD, NEW = b"old bytes", b"new bytes"


def test_an_empty_catalog_lists_nothing_and_creates_nothing(catalog: Catalog, tmp_path: Path) -> None:
    assert catalog.tools() == ()
    assert catalog.verify() == ()
    assert not catalog.has("echo")
    assert list(tmp_path.iterdir()) == []


def test_a_stored_version_is_read_back_unchanged(catalog: Catalog, draft: Make) -> None:
    made = draft("echo", OLD, imports=("near:agent/host#log",), exports=("echo",), sidecar="{}", description="says it")
    added = catalog.add(made, grant='{"http": {}}')
    assert added == catalog.get("echo")
    assert (added.number, added.active, added.grant) == (1, True, '{"http": {}}')
    assert (added.imports, added.exports, added.sidecar) == (("near:agent/host#log",), ("echo",), "{}")
    assert catalog.read(added).data == OLD
    assert [(t.name, t.number, t.description, t.pending) for t in catalog.tools()] == [("echo", 1, "says it", None)]


def test_different_bytes_are_a_new_version_that_can_be_rolled_back(catalog: Catalog, draft: Make) -> None:
    catalog.add(draft("echo", OLD), "{}")
    assert catalog.add(draft("echo", NEW), "{}").number == 2
    assert catalog.read(catalog.get("echo")).data == NEW
    assert catalog.rollback("echo").number == 1
    assert catalog.read(catalog.get("echo")).data == OLD
    assert catalog.rollback("echo", 2).number == 2
    assert [v.number for v in catalog.versions("echo")] == [1, 2]


def test_adding_the_same_version_again_changes_nothing(catalog: Catalog, draft: Make) -> None:
    first = catalog.add(draft("echo", OLD), "{}")
    assert catalog.add(draft("echo", OLD), "{}") == first
    assert catalog.add(draft("echo", OLD), '{"http": {}}').number == 2


def test_a_first_version_without_a_grant_is_refused_and_not_stored(catalog: Catalog, draft: Make) -> None:
    with pytest.raises(GrantRequiredError):
        catalog.add(draft("echo", OLD), grant=None)
    assert catalog.tools() == ()
    with pytest.raises(NotInstalledError):
        catalog.get("echo")


def test_an_update_without_a_grant_is_pending_while_the_old_version_stays_active(catalog: Catalog, draft: Make) -> None:
    catalog.add(draft("echo", OLD), "{}")
    pending = catalog.add(draft("echo", NEW), grant=None)
    assert catalog.get("echo").number == 1
    assert catalog.pending("echo") == pending
    assert catalog.tools()[0].pending == 2
    with pytest.raises(GrantRequiredError, match="never granted"):
        catalog.rollback("echo", 2)
    assert catalog.grant("echo", 2, "{}", digest=catalog.get("echo", 2).digest).number == 2
    assert catalog.pending("echo") is None
    assert catalog.tools()[0].pending is None
    with pytest.raises(InstallError, match="is not waiting"):
        catalog.grant("echo", 2, "{}", digest=catalog.get("echo", 2).digest)


def test_a_newer_update_replaces_the_pending_one(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    catalog.add(draft("echo", OLD), "{}")
    dropped = catalog.add(draft("echo", b"middle"), grant=None)
    catalog.add(draft("echo", NEW), grant=None)
    assert [v.number for v in catalog.versions("echo")] == [1, 3]
    assert not list(tmp_path.rglob(f"{dropped.digest}*"))


def test_old_versions_are_deleted_but_never_the_active_one(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    for number in range(MAX_TOOL_VERSIONS + 3):
        data = b"%d" % number
        catalog.add(draft("echo", data), "{}")
    kept = [v.number for v in catalog.versions("echo")]
    assert kept == list(range(4, MAX_TOOL_VERSIONS + 4))
    catalog.rollback("echo", 4)
    catalog.add(draft("echo", NEW), grant=None)
    catalog.add(draft("echo", OLD), grant=None)
    kept = [v.number for v in catalog.versions("echo")]
    assert kept[0] == 4 and len(kept) == MAX_TOOL_VERSIONS
    assert len(list((tmp_path / "data" / "components").iterdir())) == MAX_TOOL_VERSIONS
    assert catalog.read(catalog.get("echo")).data == b"3"


def test_removing_a_tool_deletes_its_files_except_shared_ones(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    catalog.add(draft("echo", OLD), "{}")
    catalog.add(draft("echo", NEW), "{}")
    catalog.add(draft("other", OLD), "{}")
    assert [v.number for v in catalog.remove("echo")] == [1, 2]
    assert catalog.read(catalog.get("other")).data == OLD
    assert len(list((tmp_path / "data" / "components").iterdir())) == 1
    with pytest.raises(NotInstalledError):
        catalog.remove("echo")


@on_a_file
def test_changed_bytes_are_detected_by_every_read_and_by_verify(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    catalog.add(draft("echo", OLD), "{}")
    version = catalog.add(draft("echo", NEW), "{}")
    (stored,) = tmp_path.rglob(f"{version.digest}.wasm")
    stored.write_bytes(NEW[:-1] + b"!")
    with pytest.raises(IntegrityError, match="differs from the installed") as caught:
        catalog.read(version)
    assert "rollback" in (caught.value.hint or "")
    assert str(tmp_path) not in str(caught.value)
    assert [(f.number, f.problem is None) for f in catalog.verify("echo")] == [(1, True), (2, False)]
    stored.unlink()
    with pytest.raises(IntegrityError, match="is missing"):
        catalog.read(version)
    assert catalog.add(draft("echo", NEW), "{}") == version
    assert catalog.read(version).data == NEW, "a new installation repairs it"


def test_stored_bytes_are_not_read_through_a_link(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    version = catalog.add(draft("echo", OLD), "{}")
    (stored,) = tmp_path.rglob(f"{version.digest}.wasm")
    stored.rename(tmp_path / "elsewhere")
    stored.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="differs from the installed"):
        catalog.read(version)
    assert catalog.add(draft("echo", OLD), "{}") == version
    assert not stored.is_symlink()
    assert catalog.read(version).data == OLD


def test_a_rollback_to_damaged_bytes_is_refused(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    spoilt = catalog.add(draft("echo", OLD), "{}")
    catalog.add(draft("echo", NEW), "{}")
    next(tmp_path.rglob(f"{spoilt.digest}.wasm")).write_bytes(b"")
    with pytest.raises(IntegrityError):
        catalog.rollback("echo")
    assert catalog.get("echo").number == 2


def test_an_unknown_tool_or_version_is_reported_with_the_nearest_name(catalog: Catalog, draft: Make) -> None:
    catalog.add(draft("github", OLD), "{}")
    with pytest.raises(NotInstalledError) as caught:
        catalog.get("gihtub")
    assert caught.value.hint == "did you mean github?"
    with pytest.raises(NotInstalledError, match="no version 7"):
        catalog.get("github", 7)
    with pytest.raises(NotInstalledError, match="no granted version before 1"):
        catalog.rollback("github")


@on_a_file
def test_a_catalog_with_the_previous_layout_is_upgraded(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    catalog.add(draft("echo", OLD), grant="{}")
    with closing(sqlite3.connect(next(tmp_path.rglob("catalog.sqlite3")), isolation_level=None)) as db:
        db.execute("ALTER TABLE version DROP COLUMN kept")
        db.execute("ALTER TABLE version DROP COLUMN for_agents")
        db.execute("ALTER TABLE version DROP COLUMN provenance")
        db.execute("PRAGMA user_version=3")

    assert [tool.name for tool in catalog.tools()] == ["echo"]
    assert catalog.get("echo").kept == () and not catalog.get("echo").for_agents
    assert catalog.get("echo").provenance.signer is None
    assert catalog.add(draft("echo", NEW), grant="{}").number == 2


def test_an_offer_applies_to_the_version_and_grant_that_the_user_saw(catalog: Catalog, draft: Make) -> None:
    first = catalog.add(draft("echo", OLD), grant="{}", for_agents=True)
    assert first.for_agents and [tool.for_agents for tool in catalog.tools()] == [1]
    wider = catalog.regrant(first, '{"http": {}}')
    with pytest.raises(InstallError, match="changed by another process"):
        catalog.offer(first, for_agents=False)
    assert not catalog.offer(wider, for_agents=False).for_agents
    assert catalog.add(draft("echo", OLD), grant='{"http": {}}') == wider._replace(for_agents=False)
    catalog.remove("echo")
    assert not catalog.add(draft("echo", OLD), grant="{}").for_agents


def test_an_update_keeps_the_offer_and_a_pending_one_is_not_offered(catalog: Catalog, draft: Make) -> None:
    catalog.add(draft("echo", OLD), grant="{}", for_agents=True)
    pending = catalog.add(draft("echo", NEW), grant=None, for_agents=True)
    assert not pending.for_agents
    assert catalog.grant("echo", pending.number, "{}", digest=pending.digest).for_agents
    assert not catalog.add(draft("echo", b"third"), grant="{}", for_agents=False).for_agents
    assert not catalog.add(draft("echo", b"fourth"), grant="{}").for_agents


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)])
def test_a_rollback_offers_the_version_only_if_both_were_offered(
    catalog: Catalog, draft: Make, first: bool, second: bool
) -> None:
    catalog.add(draft("echo", OLD), grant="{}", for_agents=first)
    catalog.add(draft("echo", NEW), grant="{}", for_agents=second)
    assert catalog.rollback("echo").for_agents is (first and second)


@on_a_file
def test_a_catalog_with_a_later_layout_is_not_changed(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    catalog.add(draft("echo", OLD), grant="{}")
    with closing(sqlite3.connect(next(tmp_path.rglob("catalog.sqlite3")), isolation_level=None)) as db:
        db.execute("PRAGMA user_version=99")

    with pytest.raises(InstallError, match="layout 99"):
        catalog.get("echo")


@on_a_file
def test_a_damaged_index_raises_a_typed_error(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    catalog.add(draft("echo", OLD), "{}")
    (tmp_path / "data" / "catalog.sqlite3").write_bytes(b"not a database at all, not by any means" * 100)
    with pytest.raises(InstallError, match="damaged") as caught:
        catalog.tools()
    assert caught.value.code == "catalog"


def test_an_unwritable_catalog_raises_typed_errors(draft: Make, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(WasmrtError):
        Catalog(tmp_path / "data").add(draft("echo", OLD), "{}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_catalog_in_a_read_only_folder_can_be_read(catalog: Catalog, draft: Make, tmp_path: Path) -> None:
    version = catalog.add(draft("echo", OLD), "{}")
    (tmp_path / "data").chmod(0o555)
    try:
        assert catalog.read(catalog.get("echo")).data == OLD
        with pytest.raises(InstallError) as caught:
            catalog.add(draft("echo", NEW), "{}")
        assert caught.value.code == "catalog"
        assert catalog.get("echo") == version
    finally:
        (tmp_path / "data").chmod(0o755)


def test_a_grant_for_the_shown_update_does_not_apply_to_a_later_one(catalog: Catalog, draft: Make) -> None:
    catalog.add(draft("echo", OLD), "{}")
    shown = catalog.add(draft("echo", NEW), grant=None)
    with pytest.raises(InstallError, match="has changed since it was shown"):
        catalog.grant("echo", shown.number, "{}", digest="0" * len(shown.digest))
    assert catalog.pending("echo") == shown
