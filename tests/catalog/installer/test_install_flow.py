"""From a file to the catalog: nothing is stored before it was checked and approved."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3
from made_components import HTTP, component

from wasmrt.capabilities import Capabilities
from wasmrt.catalog import Catalog, ComponentInfo
from wasmrt.catalog.granted import read_granted
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.sources import FileSource
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core import component_bytes
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import (
    CapabilityFileError,
    ComponentTooLargeError,
    CoreModuleError,
    GrantRequiredError,
    InstallError,
    InvalidComponentError,
    InvalidNameError,
    NotInstalledError,
    NotWasmError,
    SourceError,
)

Write = Callable[..., Path]


def test_an_accepted_tool_is_stored_with_its_request(installer: Installer, catalog: Catalog, tool_file: Write) -> None:
    plan = installer.plan(FileSource(tool_file(sidecar=HTTP)))
    assert plan.needs_decision
    assert any("api.example.com" in sentence for sentence in plan.sentences)
    assert catalog.tools() == (), "a plan stores nothing"
    version = installer.accept(plan)
    assert version.name == "answer"
    assert version.origin == "file answer.wasm"
    assert read_granted(version) == plan.grant
    assert read_granted(version).explain_http("GET", "https://api.example.com/v1/x").allowed
    assert catalog.read(version).data == component()


def test_a_component_is_hashed_once_before_it_is_stored(
    catalog: Catalog, tool_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []
    monkeypatch.setattr(component_bytes, "blake3", lambda data: hashed.append(len(data)) or blake3(data))
    seen: list[ComponentBytes] = []

    def prepare(name: str, component: ComponentBytes, _tools: object) -> ComponentInfo:
        seen.append(component)
        return ComponentInfo(world="any")

    installer = Installer(catalog, prepare=prepare)
    version = installer.accept(installer.plan(FileSource(tool_file())))
    assert hashed == [version.size_bytes]
    assert [component.digest for component in seen] == [version.digest]
    assert catalog.read(version) == seen[0]
    assert hashed == [version.size_bytes] * 2, "stored bytes are verified"


def test_a_tool_without_requests_needs_no_decision_and_gets_nothing(installer: Installer, tool_file: Write) -> None:
    plan = installer.plan(FileSource(tool_file()))
    assert not plan.needs_decision
    assert read_granted(installer.accept(plan)) == Capabilities.none()


def test_a_grant_file_narrows_and_never_widens(installer: Installer, tool_file: Write) -> None:
    wider = {"http": {"allowlist": [{"host": "*.example.com"}, {"host": "evil.example.org"}]}}
    version = installer.accept(installer.plan(FileSource(tool_file(sidecar=HTTP)), grant=json.dumps(wider).encode()))
    power = read_granted(version)
    assert power.explain_http("GET", "https://api.example.com/v1/x").allowed
    assert not power.explain_http("POST", "https://api.example.com/v1/x").allowed
    assert not power.explain_http("GET", "https://evil.example.org/").allowed
    nothing = installer.plan(FileSource(tool_file(sidecar=HTTP)), grant=b"{}")
    assert nothing.grant == Capabilities.none()


def test_an_update_shows_every_difference_and_is_pending(
    installer: Installer, catalog: Catalog, tool_file: Write
) -> None:
    installer.accept(installer.plan(FileSource(tool_file())))
    other = component("near:agent/host@0.3.0", answer=2)
    plan = installer.plan(FileSource(tool_file(other, sidecar=HTTP)))
    said = "\n".join(plan.changes)
    assert "different component" in said
    assert "newly imports near:agent/host@0.3.0" in said
    assert "asks for more: may GET https://api.example.com/v1/" in said
    assert plan.wider
    assert plan.needs_decision
    pending = installer.store_pending(plan)
    assert catalog.get("answer").number == 1
    assert catalog.read(catalog.get("answer")).data == component()
    assert read_granted(pending) == Capabilities.none()


def test_changed_bytes_alone_need_a_decision(installer: Installer, tool_file: Write) -> None:
    installer.accept(installer.plan(FileSource(tool_file())))
    plan = installer.plan(FileSource(tool_file(component(answer=2))))
    assert plan.needs_decision
    assert not plan.wider


def test_an_unchanged_tool_is_reported_as_installed(installer: Installer, catalog: Catalog, tool_file: Write) -> None:
    first = installer.accept(installer.plan(FileSource(tool_file(sidecar=HTTP))))
    plan = installer.plan(FileSource(tool_file(sidecar=HTTP)))
    assert plan.is_installed
    assert not plan.needs_decision
    assert installer.accept(plan) == first
    assert len(catalog.versions("answer")) == 1


def test_a_narrower_grant_for_the_same_bytes_is_a_new_version(
    installer: Installer, catalog: Catalog, tool_file: Write
) -> None:
    path = tool_file(sidecar=HTTP)
    installer.accept(installer.plan(FileSource(path)))
    plan = installer.plan(FileSource(path), grant=b"{}")
    assert any("no longer be granted" in sentence for sentence in plan.changes)
    assert installer.accept(plan).number == 2
    assert read_granted(catalog.get("answer")) == Capabilities.none()


def test_a_decision_about_a_version_that_is_no_longer_active_is_refused(
    installer: Installer, catalog: Catalog, tool_file: Write
) -> None:
    stale = installer.plan(FileSource(tool_file(sidecar=HTTP)))
    installer.accept(installer.plan(FileSource(tool_file(component(answer=2)))))
    with pytest.raises(InstallError, match="updated by another process") as caught:
        installer.accept(stale)
    assert caught.value.code == "changed"
    assert catalog.read(catalog.get("answer")).data == component(answer=2)
    assert catalog.sweep() == 0


def narrowed(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    catalog.regrant(catalog.get("answer"), "{}")


def reinstalled(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    """Install the same component with less access, under the same version number."""
    catalog.remove("answer")
    installer.accept(installer.plan(FileSource(tool_file(sidecar=HTTP)), grant=b"{}"))


def replaced(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    catalog.remove("answer")
    installer.accept(installer.plan(FileSource(tool_file(component(answer=3)))))


def updated(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    installer.accept(installer.plan(FileSource(tool_file(component(answer=3), sidecar=HTTP))))


def rolled_back(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    updated(catalog, installer, tool_file)
    installer.accept(installer.plan(FileSource(tool_file(component(answer=4)))))
    catalog.rollback("answer")


def granted(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    plan = installer.plan(FileSource(tool_file(component(answer=3), sidecar=HTTP)))
    waiting = installer.store_pending(plan)
    catalog.grant("answer", waiting.number, "{}", digest=waiting.digest)


def removed(catalog: Catalog, installer: Installer, tool_file: Write) -> None:
    catalog.remove("answer")


@pytest.mark.parametrize("change", [narrowed, reinstalled, replaced, updated, rolled_back, granted, removed])
@pytest.mark.parametrize("plans", ["an update", "the same version"])
def test_a_decision_about_a_tool_that_has_changed_since_is_refused(
    installer: Installer, catalog: Catalog, tool_file: Write, change: Callable[..., None], plans: str
) -> None:
    installer.accept(installer.plan(FileSource(tool_file(sidecar=HTTP))))
    other = {"http": HTTP["http"], "description": "Answers again."}
    stale = installer.plan(FileSource(tool_file(sidecar=other if plans == "an update" else HTTP)))
    assert not stale.needs_decision, "it would be installed without a question"
    change(catalog, installer, tool_file)
    before = catalog.versions("answer") if catalog.has("answer") else ()

    with pytest.raises((InstallError, NotInstalledError)) as caught:
        installer.accept(stale)

    assert caught.value.code in ("changed", "not-installed")
    assert (catalog.versions("answer") if catalog.has("answer") else ()) == before


def test_of_concurrent_installs_with_different_contents_one_is_accepted(
    installer: Installer, catalog: Catalog, tool_file: Write
) -> None:
    plans = [installer.plan(FileSource(tool_file(component(answer=number), sidecar=HTTP))) for number in range(6)]
    start, ended = threading.Barrier(len(plans)), []

    def accept(plan: InstallPlan) -> None:
        start.wait()
        try:
            ended.append(installer.accept(plan).digest)
        except InstallError as error:
            assert error.code == "changed"

    threads = [threading.Thread(target=accept, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [version.digest for version in catalog.versions("answer")] == ended and len(ended) == 1
    assert catalog.sweep() == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"version": "2.0"}, {"version": "1.0"}),
        ({"version": "1.0"}, {"version": "1.0"}),
        ({"version": "1.0"}, {"version": "1.0", "license": "MIT"}),
    ],
    ids=["older version", "same version", "same version, other license"],
)
@pytest.mark.parametrize("name", ["answer", "answer.component"], ids=["same file", "other file"])
def test_other_contents_need_a_decision_regardless_of_the_version(
    installer: Installer, catalog: Catalog, tool_file: Write, first: object, second: object, name: str
) -> None:
    installer.accept(installer.plan(FileSource(tool_file(sidecar=first))))
    plan = installer.plan(FileSource(tool_file(component(answer=2), name=name, sidecar=second)))
    assert plan.new.name == "answer"
    assert plan.needs_decision and not plan.is_installed
    assert any("different component" in change for change in plan.changes)
    waiting = installer.store_pending(plan)
    assert waiting.pending and catalog.read(catalog.get("answer")).data == component()


def test_a_first_install_cannot_be_pending(installer: Installer, catalog: Catalog, tool_file: Write) -> None:
    with pytest.raises(GrantRequiredError):
        installer.store_pending(installer.plan(FileSource(tool_file(sidecar=HTTP))))
    assert catalog.tools() == ()


@pytest.mark.parametrize("name", ["../up", "a.b", "Big", "a\x07b"])
def test_an_invalid_name_is_refused_before_the_file_is_read(installer: Installer, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidNameError):
        installer.plan(FileSource(tmp_path / "absent.wasm"), name=name)


def test_a_file_name_that_is_not_a_tool_name_requires_a_name(installer: Installer, tool_file: Write) -> None:
    path = tool_file(name="My.Tool")
    with pytest.raises(InvalidNameError) as caught:
        installer.plan(FileSource(path))
    assert "--name" in (caught.value.hint or "")
    assert installer.plan(FileSource(path), name="my-tool").new.name == "my-tool"


def test_refused_bytes_never_reach_the_compiler(catalog: Catalog, tool_file: Write) -> None:
    def prepare(name: str, component: ComponentBytes, _tools: object) -> ComponentInfo:
        raise AssertionError("the compiler was called")

    installer = Installer(catalog, prepare=prepare, validator=WasmValidator(max_bytes=4096))
    for data, kind in [
        (b"", NotWasmError),
        (b"text", NotWasmError),
        (b"\0asm\x01\0\0\0", CoreModuleError),
        (component()[:-3], InvalidComponentError),
        (bytes(5000), ComponentTooLargeError),
    ]:
        with pytest.raises(kind):
            installer.plan(FileSource(tool_file(data)))
    with pytest.raises(CapabilityFileError):
        installer.plan(FileSource(tool_file(sidecar="{not json")))
    assert catalog.tools() == ()


def test_a_200_megabyte_file_is_refused_without_being_read(installer: Installer, tmp_path: Path) -> None:
    path = tmp_path / "huge.wasm"
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    with pytest.raises(ComponentTooLargeError) as caught:
        installer.plan(FileSource(path))
    assert str(tmp_path) not in str(caught.value)


def test_a_path_that_is_not_a_file_is_a_source_error_and_never_hangs(installer: Installer, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wasm")
    (tmp_path / "folder.wasm").mkdir()
    for path in (tmp_path / "pipe.wasm", tmp_path / "folder.wasm", tmp_path / "absent.wasm", Path("a\0b.wasm")):
        with pytest.raises(SourceError) as caught:
            installer.plan(FileSource(path), name="tool")
        assert str(tmp_path) not in str(caught.value)


def test_a_given_sidecar_replaces_the_adjacent_one(installer: Installer, tool_file: Write, tmp_path: Path) -> None:
    path = tool_file(sidecar=HTTP)
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert installer.plan(FileSource(path, sidecar=other)).grant == Capabilities.none()
    with pytest.raises(SourceError, match=r"the capability file 'absent\.json'"):
        installer.plan(FileSource(path, sidecar=tmp_path / "absent.json"))
    other.write_bytes(b" " * 300_000)
    with pytest.raises(SourceError, match="has more than"):
        installer.plan(FileSource(path, sidecar=other))
