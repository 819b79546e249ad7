"""Tests of `wasmrt export` and `wasmrt import`: tools with their grants move to another installation."""

from __future__ import annotations

import io
import json
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import BUNDLED
from tests.compiled import Installation
from wasmrt.capabilities.file import parse
from wasmrt.catalog import Catalog
from wasmrt.catalog.granted import read_granted
from wasmrt.catalog.package import FolderFiles, pack, read_archive, write_archive

Run = Callable[..., Result]
Write = Callable[..., Path]
HTTP = {"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}}
WIDER = {"http": {"allowlist": [{"host": "*.example.com", "methods": ["GET"]}]}}


@pytest.fixture
def other(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Catalog]:
    """Makes the commands use another installation, and returns its catalog."""

    def change() -> Catalog:
        monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "other")))
        return Catalog(tmp_path / "other/data")

    return change


@pytest.fixture
def exported(wasmrt: Run, tool_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of a signed tool that agents may use, and of one with a narrowed grant and a package's tools."""
    monkeypatch.chdir(tmp_path)
    wasmrt("sign", "--new-key", "publisher")
    wasmrt("sign", tool_file(sidecar=HTTP | {"version": "1.0.0"}), "--key", "publisher.key")
    wasmrt("install", "parrot.wasm", "--key", "publisher.pub", "--yes")
    kit = tmp_path / "kit"
    kit.mkdir()
    (kit / "kit.wasm").write_bytes((BUNDLED / "time.wasm").read_bytes())
    (kit / "kit.capabilities.json").write_text(json.dumps(WIDER))
    (kit / "in.json").write_text('{"type": "object"}')
    tools = '[[tools]]\nname = "time"\ndescription = "The time."\ninput = "in.json"\n'
    (kit / "wasmrt.toml").write_text(f'name = "kit"\nversion = "1.0.0"\ncomponent = "kit.wasm"\n{tools}')
    archive, data = pack(FolderFiles(kit))
    (tmp_path / archive).write_bytes(data)
    (tmp_path / "narrow.json").write_text(json.dumps(HTTP))
    wasmrt("sign", archive, "--key", "publisher.key")
    wasmrt("install", archive, "--key", "publisher.pub", "--grant", "narrow.json", "--yes", "--no-offer")
    wasmrt("export", "tools.zip")
    return tmp_path / "tools.zip"


def test_tools_grants_and_signers_move_and_no_secret_does(
    wasmrt: Run, exported: Path, other: Callable[[], Catalog], home: Path
) -> None:
    before = Catalog(home / "data")
    wasmrt("export", "again.zip")
    assert Path("again.zip").read_bytes() == exported.read_bytes()
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    files = read_archive(exported.read_bytes())
    text = b"".join(data for name, data in files.items() if not name.endswith(".wasm")).decode()
    assert str(exported.parent) not in text, "paths of this machine"
    assert sorted(files) == [
        "digests.json", "export.json",
        *(f"kit/{each}" for each in ("capabilities.json", "component.wasm", "grant.json", "tools.json")),
        *(f"parrot/{each}" for each in ("capabilities.json", "component.wasm", "grant.json", "signature.json")),
    ]  # fmt: skip

    after = other()
    refused = wasmrt("import", exported, code=3).stderr
    assert "may GET https://api.example.com" in refused and "nothing was imported" in refused
    assert after.tools() == ()
    shown = wasmrt("import", exported, "--yes").stderr
    assert "the export names this signer; the signature was not checked" in shown
    for name in ("kit", "parrot"):
        old, new = before.get(name), after.get(name)
        assert read_granted(new) == read_granted(old) and new.provenance.signer == old.provenance.signer
        assert (new.digest, new.sidecar, new.package, new.for_agents) == (
            old.digest, old.sidecar, old.package, old.for_agents,
        )  # fmt: skip
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
    wasmrt("export", "one.zip", "parrot")
    (report,) = json.loads(wasmrt("import", "one.zip", "--json").stdout)
    assert report["unchanged"]


def test_one_answer_imports_all_tools_or_none(
    wasmrt: Run, exported: Path, other: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    after = other()
    monkeypatch.setattr("wasmrt.cli.grant.import_.is_interactive", lambda: True)
    wasmrt("import", exported, stdin="n\n", code=3)
    assert after.tools() == ()
    assert "Import kit, parrot with these grants, and offer parrot" in wasmrt("import", exported, stdin="me\n").stderr
    assert [tool.for_agents for tool in after.tools()] == [0, 0]


def test_an_import_over_installed_tools_is_an_update(
    wasmrt: Run, exported: Path, other: Callable[[], Catalog], tool_file: Write
) -> None:
    after = other()
    wasmrt("install", tool_file(of="time"), "--no-offer", "--yes")
    assert "asks for more" in wasmrt("import", exported, code=3).stderr
    assert [tool.name for tool in after.tools()] == ["parrot"]
    wasmrt("import", exported, "--yes")
    assert [version.number for version in after.versions("parrot")] == [1, 2]
    assert not after.get("parrot").for_agents, "the decision of this installation"
    wasmrt("rollback", "parrot")


def edited(archive: Path, **changes: Any) -> bytes:
    """Return an archive with other fields of `parrot` in the index, and valid digests."""
    files = read_archive(archive.read_bytes())
    del files["digests.json"]
    index = json.loads(files["export.json"])
    index["tools"] = [row | changes if row["name"] == "parrot" else row for row in index["tools"]]
    return write_archive({**files, "export.json": json.dumps(index).encode()})


def with_files(archive: Path, files: dict[str, bytes | None]) -> bytes:
    """Return an archive with other files, and valid digests."""
    found = {name: data for name, data in read_archive(archive.read_bytes()).items() if name != "digests.json"}
    return write_archive({name: data for name, data in (found | files).items() if data is not None})


def tar(name: str, kind: bytes, archive: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for each, data in read_archive(archive.read_bytes()).items():
            entry = tarfile.TarInfo(each)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "parrot/grant.json"
        made.addfile(entry)
    return out.getvalue()


def changed_byte(archive: Path) -> bytes:
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        at = opened.getinfo("parrot/grant.json").header_offset
    data[at + 30 + len("parrot/grant.json") + 5] ^= 1
    return bytes(data)


def attacks(archive: Path) -> dict[str, bytes]:
    """Return the refused archives by name."""
    files = read_archive(archive.read_bytes())
    tools = json.loads(files["kit/tools.json"])

    def with_tool(**changes: Any) -> bytes:
        return with_files(archive, {"kit/tools.json": json.dumps([tools[0] | changes]).encode()})

    def zipped(contents: dict[str, bytes]) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as made:
            for name, data in contents.items():
                made.writestr(name, data)
        return out.getvalue()

    doubled = io.BytesIO(archive.read_bytes())
    with zipfile.ZipFile(doubled, "a") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr("parrot/grant.json", files["kit/grant.json"])
    return {
        "a changed byte": changed_byte(archive),
        "no digests": zipped({name: data for name, data in files.items() if name != "digests.json"}),
        "another digest": zipped(files | {"kit/grant.json": b"{}"}),
        "cut": archive.read_bytes()[:-30],
        "not an archive": b"{}",
        "a link": tar("parrot/tools.json", tarfile.SYMTYPE, archive),
        "a hard link": tar("parrot/tools.json", tarfile.LNKTYPE, archive),
        "a name outside": tar("../x", tarfile.REGTYPE, archive),
        "a duplicate entry": doubled.getvalue(),
        "too large": with_files(archive, {"parrot/component.wasm": bytes(70 << 20)}),
        "a file that is not listed": with_files(archive, {"parrot/more.json": b"{}"}),
        "a tool that is not listed": with_files(archive, {"x/component.wasm": b"", "x/grant.json": b"{}"}),
        "a missing component": with_files(archive, {"parrot/component.wasm": None}),
        "a missing grant": with_files(archive, {"parrot/grant.json": None}),
        "no index": with_files(archive, {"export.json": None}),
        "another layout": with_files(archive, {"export.json": b'{"layout": 2, "tools": []}'}),
        "a tool listed twice": edited(archive, name="kit"),
        "a path as a name": edited(archive, name="../parrot"),
        "another key": edited(archive, more=1),
        "a flag that is a text": edited(archive, for_agents="yes"),
        "a signer without a key": edited(archive, signer={"name": "x"}),
        "a signer that is not base64": edited(archive, signer={"key": "a"}),
        "control characters": edited(archive, source="https://example.com/\x1b[2J"),
        "an unknown list": edited(archive, kept=[["x.y", "{}", None, "ann", "2026"]]),
        "an invalid entry": edited(archive, kept=[["http.allowlist", "{", None, "ann", "2026"]]),
        "an invalid grant": with_files(archive, {"parrot/grant.json": b'{"http": 1}'}),
        "an invalid component": with_files(archive, {"kit/component.wasm": b"\0asm\1\0\0\0"}),
        "a component that the signer did not sign": with_files(
            archive, {"parrot/component.wasm": files["kit/component.wasm"]}
        ),
        "a capability file that the signer did not sign": with_files(
            archive, {"parrot/capabilities.json": json.dumps(WIDER).encode()}
        ),
        "terms of bundled tools": with_tool(own={"effects": []}),
        "an unknown permission": with_tool(permission="always"),
        "an invalid schema": with_tool(schema={"type": "x"}),
        "a long description": with_tool(description="x" * 5000),
        "a name with controls": with_tool(name="a\nb"),
    }  # fmt: skip


@pytest.mark.ci("slow")
def test_no_manipulated_archive_is_imported(wasmrt: Run, exported: Path, other: Callable[[], Catalog]) -> None:
    after, bad = other(), exported.with_name("bad.zip")
    for name, data in attacks(exported).items():
        bad.write_bytes(data)
        error = json.loads(wasmrt("import", bad, "--yes", "--json", code=2).stderr)
        assert error["message"], name
        assert after.tools() == (), name


def test_a_grant_in_an_archive_never_exceeds_the_request(
    wasmrt: Run, exported: Path, other: Callable[[], Catalog]
) -> None:
    bad = exported.with_name("bad.zip")
    bad.write_bytes(with_files(exported, {"parrot/grant.json": json.dumps(WIDER).encode()}))
    after = other()
    wasmrt("import", bad, "--yes")
    assert read_granted(after.get("parrot")) == parse(json.dumps(HTTP)).capabilities


def test_an_unverified_signer_satisfies_neither_a_pin_nor_the_operators_policy(
    wasmrt: Run, exported: Path, other: Callable[[], Catalog], tool_file: Write
) -> None:
    bad, signer = exported.with_name("bad.zip"), Catalog(exported.parent / "home/data").get("parrot").provenance.signer
    bad.write_bytes(
        with_files(exported, {
            "parrot/signature.json": None, "parrot/component.wasm": (BUNDLED / "json.wasm").read_bytes(),
        })
    )  # fmt: skip
    after = other()
    wasmrt("install", exported.with_name("parrot.wasm"), "--key", "publisher.pub", "--yes")
    assert "not signed; version 1 is signed by" in wasmrt("import", bad, code=3).stderr
    assert after.get("parrot").provenance.signer == signer
    wasmrt("import", bad, "--yes")
    assert after.get("parrot").provenance.signer is None
    config = exported.parent / "other/data/config.toml"
    config.write_text("[install]\nrequire_signatures = true\n")
    for name in ("kit", "parrot"):
        wasmrt("remove", name, "--yes")
    assert "requires that tools are signed" in wasmrt("import", bad, "--yes", code=2).stderr
    config.write_text('[install]\nhosts = ["example.org"]\n')
    bad.write_bytes(edited(exported, source="https://example.com/parrot.wasm"))
    assert "not allowed installations from example.com" in wasmrt("import", bad, "--yes", code=2).stderr
    assert after.tools() == ()


def test_only_installed_tools_are_exported(wasmrt: Run, exported: Path, tmp_path: Path, tool_file: Write) -> None:
    wasmrt("export", "one.zip", "kit")
    assert "parrot/grant.json" not in read_archive(Path("one.zip").read_bytes())
    wasmrt("export", "none.zip", "missing", code=2)
    wasmrt("remove", "kit", "--yes")
    wasmrt("remove", "parrot", "--yes")
    assert "no tool is installed" in wasmrt("export", "none.zip", code=2).stderr
    assert not Path("none.zip").exists()
