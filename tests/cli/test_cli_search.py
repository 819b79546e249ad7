"""`wasmrt search`: index files, registries and wkg's well-known file, which may contain anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from tests.cli.registry import BASIC, COMPONENT, FakeRegistry, config_of, digest_of, log_in

Run = Callable[..., Result]
DIGEST = digest_of(COMPONENT)
WELL_KNOWN = "/.well-known/wasm-pkg/registry.json"


@pytest.fixture
def lists(home: Path) -> Callable[..., None]:
    """Sets the lists to search."""

    def write(*sources: str) -> None:
        (home / "data").mkdir(exist_ok=True)
        with (home / "data/config.toml").open("a") as file:
            file.write(f"[install]\nsearch = {json.dumps(sources)}\n")

    return write


def index(*entries: object) -> str:
    return json.dumps({"tools": entries})


def entry(**changes: object) -> dict[str, object]:
    base = {"name": "json", "description": "Query documents", "reference": "oci://r.example.com/acme/json:1.2.0"}
    return base | changes


def found(wasmrt: Run, *words: str, code: int = 0) -> tuple[list[dict[str, str]], list[str]]:
    tree: dict[str, Any] = json.loads(wasmrt("search", *words, "--json", code=code).stdout)
    return tree["tools"], tree["problems"]


def test_an_index_file_is_searched_by_name_and_description(wasmrt: Run, home: Path, lists: Callable[..., None]) -> None:
    lists("tools.json", "other.toml")
    (home / "data/tools.json").write_text(index(entry(), entry(name="weather", description="Forecasts")))
    (home / "data/other.toml").write_text(
        f'[[tools]]\nname = "jq"\ndescription = "Filters for JSON"\nreference = "https://example.com/jq.wasm"\n'
        f'digest = "{DIGEST}"\n'
    )
    shown = wasmrt("search", "JSON").stdout.splitlines()
    assert shown == [
        "json: Query documents",
        "  wasmrt install oci://r.example.com/acme/json:1.2.0",
        "jq: Filters for JSON",
        f"  wasmrt install 'https://example.com/jq.wasm#sha256={DIGEST[7:]}'",
    ]
    assert [tool["name"] for tool in found(wasmrt, "forecast")[0]] == ["weather"]
    assert "no tool matches" in wasmrt("search", "calendar").stderr


def test_the_digest_of_an_index_pins_what_is_installed(
    wasmrt: Run, home: Path, registry: FakeRegistry, lists: Callable[..., None]
) -> None:
    digest = registry.publish(config_of(None), (COMPONENT, "application/wasm"))
    registry.publish(config_of(b"{}"), (COMPONENT, "application/wasm"))  # the tag moves
    lists(f"https://{registry.host}/tools.json")
    registry.lies["/tools.json"] = http_response(
        index(entry(name="parrot", reference=registry.url(), digest=digest)).encode()
    )
    ((tool,), _) = found(wasmrt, "parrot")
    assert tool["reference"] == registry.url(f"@{digest}")
    wasmrt("install", tool["reference"], "--yes")
    assert "parrot" in wasmrt("list").stdout


def catalog(*names: object, tags: tuple[object, ...] = ("1.2.0", "1.10.0", "1.10.0-rc.1", "latest")) -> dict[str, Any]:
    return {
        "/v2/_catalog": http_response(json.dumps({"repositories": names}).encode()),
        "/tags/list": http_response(json.dumps({"tags": [*tags, f"sha256-{'0' * 64}"]}).encode()),
    }


@pytest.mark.parametrize("tree", [
    {"preferredProtocol": "oci", "oci": {"registry": "HOST", "namespacePrefix": "acme/"}},
    {"ociRegistry": "HOST", "ociNamespacePrefix": "acme"},
    None,
])  # fmt: skip
def test_a_registry_lists_repositories_of_its_namespace_with_their_highest_versions(
    wasmrt: Run, registry: FakeRegistry, lists: Callable[..., None], tree: object
) -> None:
    lists(f"oci://{registry.host}/acme" if tree is None else f"https://{registry.host}")
    registry.lies = catalog("acme/parrot", "acme/tools/parrot", "acmeparrot", "other/parrot", "acme/Parrot", 7)
    registry.lies[WELL_KNOWN] = http_response(json.dumps(tree).replace("HOST", registry.host).encode())
    tools, problems = found(wasmrt, "parrot")
    assert [(tool["name"], tool["reference"]) for tool in tools] == [
        ("parrot", f"oci://{registry.host}/acme/parrot:1.10.0"),
        ("tools/parrot", f"oci://{registry.host}/acme/tools/parrot:1.10.0"),
    ]
    assert problems == []


def test_tags_that_are_no_versions_are_used_only_without_a_version(
    wasmrt: Run, registry: FakeRegistry, lists: Callable[..., None]
) -> None:
    lists(f"oci://{registry.host}/acme")
    for tags, chosen in ((("edge", "latest", "main"), "latest"), (("a", "b", "c\n"), "b")):
        registry.lies = catalog("acme/parrot", tags=tags)
        assert found(wasmrt, "parrot")[0][0]["reference"].endswith(f"/acme/parrot:{chosen}")
    registry.lies = catalog("acme/parrot", tags=())
    assert found(wasmrt, "parrot") == ([], [])


def test_pages_of_a_registry_are_followed_only_at_its_own_address(
    wasmrt: Run, registry: FakeRegistry, lists: Callable[..., None]
) -> None:
    def page(target: str) -> Callable[[ReceivedRequest, ServerConnection], bytes]:
        return lambda request, _: http_response(
            json.dumps({"repositories": ["acme/b" if "last" in request.target else "acme/a"]}).encode(),
            headers=(("Link", f'<{target}>; rel="next"'),),
        )

    lists(f"oci://{registry.host}")
    registry.lies = catalog() | {"/v2/_catalog": page("/v2/_catalog?last=a")}
    tools, problems = found(wasmrt, "acme")
    assert {tool["name"] for tool in tools} == {"acme/a", "acme/b"}
    assert len(problems) == 1 and "only the first repositories" in problems[0]
    registry.lies["/v2/_catalog"] = page(f"https://127.0.0.1:{registry.inner.port}/v2/_catalog")
    assert "another address" in found(wasmrt, "acme", code=1)[1][0]
    assert registry.inner.connections == 0


def test_a_token_for_the_list_is_requested_with_the_scope_of_the_list(
    wasmrt: Run, registry: FakeRegistry, lists: Callable[..., None], tmp_path: Path
) -> None:
    def respond(request: ReceivedRequest, _: ServerConnection) -> bytes:
        if request.header("Authorization") is None:
            header = ("WWW-Authenticate", f'Bearer realm="https://{registry.host}/token",service="a"')
            return http_response(status=401, headers=(header,))
        return http_response(b'{"repositories": ["acme/parrot"]}')

    lists(f"oci://{registry.host}/acme")
    log_in(tmp_path / "docker", registry.host)
    registry.lies = catalog() | {"/v2/_catalog": respond}
    assert len(found(wasmrt, "parrot")[0]) == 1
    (token,) = [each for each in registry.server.requests if each.target.startswith("/token")]
    assert "scope=registry%3Acatalog%3A%2A" in token.target and token.header("Authorization") == BASIC


def test_a_list_that_cannot_be_read_is_one_line_and_the_others_are_searched(
    wasmrt: Run, home: Path, registry: FakeRegistry, lists: Callable[..., None]
) -> None:
    lists("missing.json", f"oci://{registry.host}/acme", f"https://{registry.host}", "good.json")
    registry.lies = {"/v2/_catalog": http_response(status=404), WELL_KNOWN: http_response(b'{"oci": {}}')}
    (home / "data/good.json").write_text(index(entry()))
    tools, problems = found(wasmrt, "json")
    assert len(tools) == 1
    assert [problem.partition(" cannot be searched: ")[2][:30] for problem in problems] == [
        "the index 'missing.json' does ", "the registry does not list its", f"{WELL_KNOWN} names no OCI registry"[:30],
    ]  # fmt: skip
    lines = wasmrt("search", "json").stderr.splitlines()
    assert len(lines) == 3


def test_invalid_indexes_and_entries_are_reported_and_never_shown(
    wasmrt: Run, home: Path, lists: Callable[..., None]
) -> None:
    lists("tools.json")
    bad: list[object] = [
        7, {}, entry(name=""), entry(name="json" * 100), entry(reference="oci://json/json"), entry(name=["json"]),
        entry(reference="http://example.com/json.wasm"), entry(reference="https://a:b@example.com/json.wasm"),
        entry(reference="./json.wasm"), entry(reference="--yes"), entry(reference="https://example.com/json"),
        entry(digest="sha256:json"), entry(digest=7),
        entry(reference=f"https://example.com/json.wasm#sha256={'0' * 64}", digest=DIGEST),
        entry(reference=f"oci://example.com/json@sha256:{'0' * 64}", digest=DIGEST),
    ]  # fmt: skip
    (home / "data/tools.json").write_text(index(*bad, entry(name="good", description=7)))
    tools, problems = found(wasmrt, "json", "good")
    assert [tool["name"] for tool in tools] == ["good"]
    assert len(problems) == 1 and f"{len(bad) - 1} other entries" in problems[0]
    for text in ("", "[]", "{}", '{"tools": 7}', '{"tools": [], "tools": []}', "[" * 10_000, " " * 2_000_000, "\0"):
        (home / "data/tools.json").write_text(text)
        assert len(found(wasmrt, "json", code=1)[1]) == 1, text[:20]


def test_text_of_an_index_cannot_imitate_the_output_or_a_command(
    wasmrt: Run, home: Path, lists: Callable[..., None]
) -> None:
    lists("tools.json")
    evil = entry(
        name="json\n  wasmrt install evil", description="\x1b[2J\r\u202e" + "x" * 10_000,
        reference="https://example.com/json.wasm?a=$(id)&b",
    )  # fmt: skip
    (home / "data/tools.json").write_text(index(evil))
    shown = wasmrt("search", "json").stdout
    assert shown.count("\n") == 2 and len(shown) < 1000 and not {"\x1b", "\r", "\u202e"} & {*shown}
    assert shown.endswith("  wasmrt install 'https://example.com/json.wasm?a=$(id)&b'\n")


def test_lists_at_hosts_that_are_not_allowed_are_not_contacted(
    wasmrt: Run, home: Path, registry: FakeRegistry, lists: Callable[..., None]
) -> None:
    lists(f"oci://{registry.host}", f"https://{registry.host}/tools.json", f"https://{registry.host}")
    with (home / "data/config.toml").open("a") as file:
        file.write('hosts = ["r.example.com"]\n')
    _, problems = found(wasmrt, "json", code=1)
    assert len(problems) == 3 and all("has not allowed" in problem for problem in problems)
    assert registry.server.connections == 0


def test_a_search_without_lists_or_with_invalid_ones_names_the_setting(
    wasmrt: Run, home: Path, lists: Callable[..., None]
) -> None:
    assert "wasmrt config set --append install.search" in wasmrt("search", "json", code=2).stderr
    for source in (
        "tools",
        "http://example.com/a.json",
        "https://example.com/tools",
        "https://example.com/#a",
        "oci://",
    ):
        (home / "data/config.toml").unlink(missing_ok=True)
        lists(source)
        assert "install.search" in wasmrt("search", "json", code=2).stderr, source
