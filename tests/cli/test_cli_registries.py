"""Tests of `wasmrt install oci://...`: artifacts of several publishers, and logins."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from wasmrt.testing import http_response

from tests.cli.registry import (
    BASIC,
    COMPONENT,
    PASSWORD,
    REQUEST,
    TOKEN,
    USER,
    FakeRegistry,
    config_of,
    descriptor,
    digest_of,
    log_in,
)
from wasmrt.catalog.package import FolderFiles, pack
from wasmrt.catalog.registry import OciSource
from wasmrt.cli.shared.registries import registry_access

Run = Callable[..., Result]
WASM = "application/wasm"
POLICY = (
    b'version: "1.0"\npermissions:\n  network:\n    allow:\n      - host: api.example.com\n      - cidr: 10.0.0.0/8\n'
)


def paths(registry: FakeRegistry) -> list[str]:
    return [request.target.partition("?")[0].removeprefix("/v2/acme/parrot") for request in registry.server.requests]


def test_a_tag_is_resolved_once_and_the_capability_file_comes_from_the_config(
    wasmrt: Run, registry: FakeRegistry
) -> None:
    config = config_of(REQUEST)
    digest = registry.publish(config, (COMPONENT, WASM))
    shown = wasmrt("install", registry.url(), "--yes")
    assert "may GET https://api.example.com, every path" in shown.stderr
    assert paths(registry) == [
        "/manifests/1.0.0", f"/referrers/{digest}", f"/manifests/{digest.replace(':', '-')}",
        f"/blobs/{digest_of(config)}", f"/blobs/{digest_of(COMPONENT)}",
    ]  # fmt: skip
    assert {request.header("Accept-Encoding") for request in registry.server.requests} == {"identity"}
    (tool,) = json.loads(wasmrt("list", "--json").stdout)
    assert tool["name"] == "parrot"
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout


def test_the_fetched_tool_names_its_manifest(registry: FakeRegistry, home: Path) -> None:
    digest = registry.publish(config_of(REQUEST), (COMPONENT, WASM))
    fetched = OciSource(registry.url(), registry_access()).fetch(max_bytes=len(COMPONENT))
    assert (fetched.resolved, fetched.digest) == (registry.url(f"@{digest}"), digest)
    assert (fetched.signed, fetched.sidecar) == ((digest.removeprefix("sha256:"),), REQUEST)


def test_a_digest_pins_the_manifest(wasmrt: Run, registry: FakeRegistry) -> None:
    digest = registry.publish(config_of(None), (COMPONENT, WASM))
    stored = json.loads(wasmrt("install", registry.url(f"@{digest}"), "--json").stdout)
    assert stored["sidecar"] is None and stored["origin"] == registry.url(f"@{digest}")
    other = registry.publish(config_of(REQUEST), (COMPONENT, WASM))
    registry.manifests[digest] = registry.manifests[other]
    error = wasmrt("install", registry.url(f"@{digest}"), "--yes", code=2).stderr
    assert f"expected {digest}, got {other}" in error


def test_a_moved_tag_is_an_update_that_waits_for_its_grant(wasmrt: Run, registry: FakeRegistry) -> None:
    registry.publish(config_of(None), (COMPONENT, WASM))
    wasmrt("install", registry.url())
    registry.publish(config_of(REQUEST), (COMPONENT, WASM))
    assert "asks for more" in wasmrt("install", registry.url(), code=3).stderr
    assert json.loads(wasmrt("inspect", "parrot", "--json").stdout)["version"] == 1


def test_redirects_of_a_registry_lead_only_to_hosts_that_the_operator_listed(
    wasmrt: Run, registry: FakeRegistry, home: Path
) -> None:
    registry.publish(config_of(None), (COMPONENT, WASM))
    moved = http_response(status=307, headers=(("Location", f"https://127.0.0.1:{registry.inner.port}/blob"),))
    registry.lies = {digest_of(COMPONENT): moved}
    config = home / "data/config.toml"
    settings = config.read_text()
    config.write_text(f'{settings}[install]\nhosts = ["{registry.host}"]\n')
    error = json.loads(wasmrt("install", registry.url(), "--json", code=2).stderr)
    assert error["code"] == "policy" and registry.inner.connections == 0
    registry.lies = {}
    registry.challenge = f'Bearer realm="https://127.0.0.1:{registry.inner.port}/token"'
    assert json.loads(wasmrt("install", registry.url(), "--json", code=2).stderr)["code"] == "policy"
    registry.challenge = ""
    wasmrt("install", registry.url())


def test_a_component_without_a_capability_file_gets_the_named_one(
    wasmrt: Run, registry: FakeRegistry, tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_bytes(REQUEST)
    registry.publish(b"{}", (COMPONENT, WASM), config=descriptor(b"{}", "application/vnd.oci.empty.v1+json"))
    wasmrt("install", registry.url(), "--capabilities", tmp_path / "own.json", "--yes")
    assert "api.example.com" in wasmrt("inspect", "parrot").stdout
    registry.publish(config_of(REQUEST), (COMPONENT, WASM))
    told = wasmrt("install", registry.url(), "--capabilities", tmp_path / "own.json", "--yes", code=2).stderr
    assert "contains its capability file, so a separate one cannot be used" in told


def test_wassettes_policy_layer_becomes_a_request(wasmrt: Run, registry: FakeRegistry) -> None:
    registry.publish(config_of(None), (COMPONENT, WASM), (POLICY, "application/vnd.wasm.policy.v1+yaml"))
    told = wasmrt("install", registry.url(), code=3).stderr
    assert "https://api.example.com" in told and "not converted: permissions.network.allow[1]" in told
    assert json.loads(wasmrt("list", "--json").stdout) == []


def test_a_package_is_installed_from_its_archive(wasmrt: Run, registry: FakeRegistry, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/kit.wasm").write_bytes(COMPONENT)
    (tmp_path / "kit/wasmrt.toml").write_text('name = "kit"\nversion = "1.0.0"\ncomponent = "kit.wasm"\n')
    _, archive = pack(FolderFiles(tmp_path / "kit"))
    registry.publish(b"{}", (archive, "application/vnd.wasmrt.package.v1"))
    wasmrt("install", registry.url())
    assert [tool["name"] for tool in json.loads(wasmrt("list", "--json").stdout)] == ["kit"]


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_the_login_of_dockers_configuration_is_sent_after_a_challenge(
    wasmrt: Run, registry: FakeRegistry, tmp_path: Path, scheme: str
) -> None:
    registry.publish(config_of(None), (COMPONENT, WASM))
    realm = f"https://{registry.host}/token"
    registry.challenge = f'{scheme} realm="{realm}",service="the registry",scope="repository:other/tool:delete"'
    wasmrt("install", registry.url(), code=0 if scheme == "Bearer" else 2)  # the realm issues tokens for public tools
    registry.server.requests.clear()
    log_in(tmp_path / "docker", registry.host)
    wasmrt("install", registry.url())
    first, *others = [request.header("Authorization") for request in registry.server.requests]
    assert first is None
    assert others[0] == BASIC and set(others[1:]) == {f"Bearer {TOKEN}" if scheme == "Bearer" else BASIC}
    asked = next((each.target for each in registry.server.requests if each.target.startswith("/token")), None)
    scope = "/token?service=the+registry&scope=repository%3Aacme%2Fparrot%3Apull"
    assert asked == (scope if scheme == "Bearer" else None)


def test_a_login_comes_from_a_credential_helper(
    wasmrt: Run, registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.publish(config_of(None), (COMPONENT, WASM))
    registry.challenge = 'Basic realm="registry"'
    helper = tmp_path / "docker-credential-fake"
    answer = json.dumps({"ServerURL": registry.host, "Username": USER, "Secret": PASSWORD})
    helper.write_text(f'#!/bin/sh\n[ "$1" = get ] && [ "$(cat)" = {registry.host} ] && echo \'{answer}\'\n')
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    log_in(tmp_path / "docker", registry.host, credHelpers={registry.host: "fake"}, auths={})
    wasmrt("install", registry.url())
    helper.write_text("#!/bin/sh\nexit 1\n")
    assert "docker-credential-fake failed" in wasmrt("install", registry.url(), code=1).stderr
    for name in ("../fake", "fake x", ""):
        log_in(tmp_path / "docker", registry.host, credHelpers={registry.host: name})
        assert "credential helper" in wasmrt("install", registry.url(), code=1).stderr


def test_logins_that_cannot_be_used_are_errors(wasmrt: Run, registry: FakeRegistry, tmp_path: Path) -> None:
    registry.publish(config_of(None), (COMPONENT, WASM))
    registry.challenge = 'Basic realm="registry"'
    folder, host = tmp_path / "docker", registry.host
    assert f"docker login {host}" in wasmrt("install", registry.url(), code=2).stderr
    log_in(folder, "127.0.0.1:1")
    assert "requires a login" in wasmrt("install", registry.url(), code=2).stderr
    log_in(folder, host, auths={host: {"identitytoken": "x"}})
    assert "identity token" in wasmrt("install", registry.url(), code=1).stderr
    for broken in ([], "x", {host: []}, {host: {"auth": "!"}}, {host: {"auth": 7}}, {host: {"auth": "YWI="}}):
        log_in(folder, host, auths=broken)
        assert "config.json is invalid" in wasmrt("install", registry.url(), code=1).stderr, broken
    (folder / "config.json").write_text("{" + PASSWORD)
    told = wasmrt("install", registry.url(), code=1).stderr
    assert "cannot be read" in told and PASSWORD not in told
    registry.lies = {"1.0.0": http_response(status=403)}
    assert "denied pull" in wasmrt("install", registry.url(), code=2).stderr


@pytest.mark.parametrize(
    "url",
    [
        "oci://parrot:1", "oci:///acme/parrot:1", "oci://h/acme/parrot", "oci://h/acme/parrot@sha256:00", "oci://h/:1",
        "oci://h/Acme/parrot:1", "oci://h/acme//parrot:1", "oci://h/acme/../parrot:1", "oci://h/acme/parrot:1?x=1",
        "oci://h/acme/parrot:", "oci://ann:word@h/acme/parrot:1", "oci://h:0/acme/parrot:1", "OCI://h/acme/parrot:1",
    ],
)  # fmt: skip
def test_references_without_host_tag_or_digest_are_refused(wasmrt: Run, url: str) -> None:
    assert json.loads(wasmrt("install", url, "--json", code=2).stderr)["code"] in ("source", "invalid-url")


def test_hints_name_the_missing_scheme_and_the_setting_for_an_unknown_authority(
    wasmrt: Run, registry: FakeRegistry, home: Path
) -> None:
    assert "oci://HOST/NAME:TAG" in wasmrt("install", "127.0.0.1:5000/acme/parrot:1.0.0", code=2).stderr
    (home / "data/config.toml").write_text('[network]\nunsafe_allowed_networks = ["127.0.0.0/8"]\n')
    assert "wasmrt config set network.ca_file FILE" in wasmrt("install", registry.url(), code=2).stderr


def test_what_is_pushed_is_what_is_installed(
    wasmrt: Run, registry: FakeRegistry, tool_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = tool_file(sidecar=REQUEST.decode())
    registry.challenge = f'Bearer realm="https://{registry.host}/token",service="a"'
    log_in(tmp_path / "docker", registry.host)
    pushed = json.loads(wasmrt("push", registry.url(), file, "--json").stdout)["resolved"]
    assert any("Aacme%2Fparrot%3Apull%2Cpush" in request.target for request in registry.server.requests)
    manifest = json.loads(registry.manifests["1.0.0"])
    assert pushed == registry.url(f"@{digest_of(registry.manifests['1.0.0'])}")
    assert [layer["mediaType"] for layer in manifest["layers"]] == [WASM]
    config = json.loads(registry.blobs[manifest["config"]["digest"]])
    assert config["layerDigests"] == [digest_of(COMPONENT)]
    assert (config["architecture"], config["os"], config["wasmrt"]["data"]) == ("wasm", "wasip2", REQUEST.decode())
    assert config["component"]["exports"] == ["wasmrt:tool/provider@0.1.0"]
    assert "may GET https://api.example.com" in wasmrt("install", pushed, "--yes").stderr
    registry.server.requests.clear()
    assert json.loads(wasmrt("push", registry.url(":2"), file, "--json").stdout)["resolved"] == pushed
    assert [each.method for each in registry.server.requests].count("POST") == 0  # the registry has both blobs


def test_a_pushed_package_is_installed(wasmrt: Run, registry: FakeRegistry, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/kit.wasm").write_bytes(COMPONENT)
    (tmp_path / "kit/wasmrt.toml").write_text('name = "kit"\nversion = "1.0.0"\ncomponent = "kit.wasm"\n')
    name, archive = pack(FolderFiles(tmp_path / "kit"))
    (tmp_path / name).write_bytes(archive)
    wasmrt("push", registry.url(), tmp_path / name)
    assert json.loads(registry.manifests["1.0.0"])["artifactType"] == "application/vnd.wasmrt.package.v1"
    wasmrt("install", registry.url())
    assert [tool["name"] for tool in json.loads(wasmrt("list", "--json").stdout)] == ["kit"]


def test_uploads_that_are_refused_or_lead_elsewhere_are_errors(
    wasmrt: Run, registry: FakeRegistry, tool_file: Callable[..., Path]
) -> None:
    file = tool_file()
    at = f"https://127.0.0.1:{registry.inner.port}/upload"
    lies = {
        "at another port": ("/uploads/", http_response(status=202, headers=(("Location", at),)), "registry"),
        "refused": ("/uploads/", http_response(status=403), "registry-login"),
        "too large": ("/uploads/1", http_response(status=413), "registry"),
        "the manifest is refused": ("/manifests/1.0.0", http_response(status=400), "registry"),
        "redirected": ("/uploads/", http_response(status=307, headers=(("Location", at),)), "registry"),
    }
    for name, (path, response, code) in lies.items():
        registry.lies = {path: response}
        registry.blobs.clear()
        error = json.loads(wasmrt("push", registry.url(), file, "--json", code=2).stderr)
        assert error["code"] == code, f"{name}: {error}"
    assert registry.inner.connections == 0 and registry.manifests == {}


def test_only_valid_tools_are_pushed_and_only_under_a_tag(
    wasmrt: Run, registry: FakeRegistry, tool_file: Callable[..., Path], tmp_path: Path
) -> None:
    pinned = registry.url(f"@{digest_of(b'')}")
    assert "oci://HOST/NAME:TAG" in wasmrt("push", pinned, tool_file(), code=2).stderr
    wasmrt("push", registry.url(), tool_file(sidecar='{"http": 1}'), code=2)
    wasmrt("push", registry.url(), tool_file(data=b"not a component"), code=2)
    (tmp_path / "kit.zip").write_bytes(b"not an archive")
    wasmrt("push", registry.url(), tmp_path / "kit.zip", code=2)
    assert registry.server.connections == 0
