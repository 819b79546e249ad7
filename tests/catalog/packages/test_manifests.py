"""IronClaw's manifests: valid contents, errors (all reported together), and omitted parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.catalog.packages.desk_package import write_package
from wasmrt.catalog.package import Package, open_files, read_package, standard_operations
from wasmrt.core.effects import READING, Effect
from wasmrt.core.errors import ManifestError, PackageError, SourceError, WasmrtError
from wasmrt.sandbox.schema import Validator, schema_problem
from wasmrt.sandbox.schema.providers import render

WASM = b"\0asm\x0d\0\x01\0"


def read(tmp_path: Path, **edits: str) -> Package:
    return read_package(open_files(write_package(tmp_path / "desk", WASM, edits=edits)))


def edit(tmp_path: Path, old: str, new: str) -> Package:
    return read_package(open_files(write_package(tmp_path / "desk", WASM, edits={old: new})))


def problems(tmp_path: Path, old: str, new: str) -> dict[str, str]:
    with pytest.raises(ManifestError) as refused:
        edit(tmp_path, old, new)
    return dict(refused.value.problems)


def test_a_packages_tools_have_the_properties_of_the_manifest(tmp_path: Path) -> None:
    package = read(tmp_path)
    reading, purging, sending = package.tools or ()

    assert (package.id, package.version, package.component) == ("desk", "1.2.0", WASM)
    assert (reading.name, reading.capability_id, reading.permission) == ("list_tickets", "desk.list_tickets", "allow")
    assert reading.origins == (("loop_run", "ungated"), ("product", "ungated"), ("automation", "forbidden"))
    assert (reading.read_only, purging.read_only, purging.destructive, sending.hidden) == (True, False, True, True)
    assert reading.output_schema is not None
    assert reading.prompt.startswith("# Tickets")


def test_each_tool_requests_its_own_hosts_credentials_and_sizes(tmp_path: Path) -> None:
    asked = read(tmp_path).request.capabilities
    assert asked.tools is not None
    http = {tool.name: tool.capabilities.http for tool in asked.tools}
    effects = {tool.name: frozenset(tool.effects or ()) for tool in asked.tools}

    assert {name: [m.secret_name for m in part.credentials] for name, part in http.items() if part} == {
        "list_tickets": ["desk_token"],
        "purge_tickets": ["vault_key"],
        "send_message": ["desk_token"],
    }
    assert http["list_tickets"] is not None and http["list_tickets"].allowlist[0].methods == ("GET", "HEAD")
    assert http["purge_tickets"] is not None and http["purge_tickets"].max_request_bytes == 2048
    assert effects["list_tickets"] <= READING
    assert Effect.EXTERNAL_WRITE in effects["send_message"]


def test_the_first_vendors_login_and_the_operators_settings_are_read(tmp_path: Path) -> None:
    request = read(tmp_path).request

    assert request.auth is not None and request.auth.oauth is not None
    assert (request.auth.secret_name, request.auth.provider) == ("desk_token", "desk")
    assert request.auth.oauth.client_id_env == "DESK_OAUTH_CLIENT_ID"
    asked = request.sections["setup"]["required_secrets"]
    assert [item["name"] for item in asked] == ["desk_oauth_client_id", "desk_oauth_client_secret"]


V2 = """
schema_version = "reborn.extension_manifest.v2"
id = "desk"
name = "Desk"
version = "0.1.0"
description = "x"
trust = "third_party"

[runtime]
kind = "wasm"
module = "wasm/desk_tool.wasm"

[[host_api]]
id = "ironclaw.capability_provider/v1"
section = "capability_provider.tools"

[capability_provider.tools]

[[capability_provider.tools.capabilities]]
id = "desk.list_tickets"
description = "List."
effects = ["dispatch_capability", "network", "use_secret"]
runtime_credentials = [
  { handle = "desk_token", source = { type = "product_auth_account", provider = "desk", setup = { kind = "oauth" } }, \
provider_scopes = ["read"], audience = { scheme = "https", host_pattern = "api.desk.example" }, \
target = { type = "header", name = "authorization", prefix = "Bearer " } },
]
default_permission = "ask"
visibility = "model"
input_schema_ref = "schemas/desk/list_tickets.input.v1.json"
required_host_ports = ["host.runtime.http_egress"]
"""


@pytest.mark.parametrize(
    "text",
    [
        V2,
        V2.replace("[capability_provider.tools]\n", "").replace(
            "capability_provider.tools.capabilities", "capabilities"
        ),
    ],
    ids=["provider", "capabilities"],
)
def test_version_2_is_read_like_version_3(tmp_path: Path, text: str) -> None:
    folder = write_package(tmp_path / "desk", WASM)
    (folder / "manifest.toml").write_text(text)
    package = read_package(open_files(folder))
    tools = package.request.capabilities.tools or ()

    assert [tool.capability_id for tool in package.tools or ()] == ["desk.list_tickets"]
    assert tools[0].capabilities.http is not None
    assert [mapping.host_patterns for mapping in tools[0].capabilities.http.credentials] == [("api.desk.example",)]


MISTAKES: dict[str, tuple[str, str, str]] = {
    "an unknown version": ("manifest.v3", "manifest.v4", "schema_version"),
    "an unknown key of a tool": ('default_permission = "allow"', 'defualt_permission = "allow"', "defualt_permission"),
    "an unknown effect": ('"network", "use_secret"]', '"netwrok", "use_secret"]', "tools[0].effects[0]"),
    "another package's tool": ('id = "desk.list_tickets"', 'id = "mail.list_tickets"', "tools[0].id"),
    "a tool twice": ('id = "desk.purge_tickets"', 'id = "desk.list_tickets"', "tools[1].id"),
    "no schema": ('input_schema_ref = "schemas/desk/purge_tickets.input.v1.json"', "", "tools[1].input_schema_ref"),
    "an unknown operation": ('standard_op = "send_message"', 'standard_op = "send_mesage"', "tools[2].standard_op"),
    "a reserved operation": ('standard_op = "send_message"', 'standard_op = "forward_message"', "tools[2].standard_op"),
    "a schema in addition to an operation": (
        'visibility = "hidden"',
        'visibility = "hidden"\ninput_schema_ref = "x.json"',
        "tools[2].input_schema_ref",
    ),
    "a credential over http": (
        'audience = { scheme = "https", host = "vault',
        'audience = { scheme = "http", host = "vault',
        "tools[1].credentials[0].audience.scheme",
    ),
    "a credential in a body": (
        'injection = { type = "header", name = "x-vault-key" }',
        'injection = { type = "body_json_pointer", pointer = "/key" }',
        "tools[1].credentials[0].injection.type",
    ),
    "an unknown gate": ('product = "ungated" }', 'product = "open" }', "tools[0].origin_gate_matrix.product"),
    "an invalid package id": ('id = "desk"\n', 'id = "../desk"\n', "id"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_is_reported_with_its_key(tmp_path: Path, mistake: str) -> None:
    old, new, key = MISTAKES[mistake]

    assert any(key in place for place in problems(tmp_path, old, new))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (V2, "capability_provider.tools.capabilities[0]"),
        (V2.replace("[capability_provider.tools]\n", "").replace("capability_provider.tools.", ""), "capabilities[0]"),
    ],
)
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"dispatch_capability"', '"dispatch_capabilty"', "effects[0]"),
        ('id = "desk.list_tickets"', 'id = "mail.list_tickets"', "id"),
    ],
)
def test_an_error_in_version_2_is_reported_with_its_path(
    tmp_path: Path, text: str, place: str, old: str, new: str, key: str
) -> None:
    folder = write_package(tmp_path / "desk", WASM)
    (folder / "manifest.toml").write_text(text.replace(old, new))

    with pytest.raises(ManifestError) as refused:
        read_package(open_files(folder))
    assert [where for where, _ in refused.value.problems] == [f"{place}.{key}"]


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    found = problems(tmp_path, '"network", "use_secret"', '"netwrok", "use_secrt"')

    assert len(found) == 6


def test_a_write_operation_must_declare_that_it_writes(tmp_path: Path) -> None:
    text = 'effects = ["network", "use_secret", "external_write"]\ndefault_permission = "ask"\nvisibility = "hidden"'
    found = problems(tmp_path, text, text.replace(', "external_write"', ""))

    assert "external_write" in found["tools[2].effects"]


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ('kind = "mcp"', "an MCP server"),
        ('kind = "script"', "a script"),
        ('kind = "first_party"', "a part of another tool runtime"),
    ],
)
def test_a_package_of_another_kind_is_refused_with_its_kind(tmp_path: Path, runtime: str, said: str) -> None:
    with pytest.raises(PackageError, match=said) as refused:
        edit(tmp_path, 'kind = "wasm"', runtime)
    assert refused.value.code == "package-kind"


@pytest.mark.parametrize(
    ("section", "said"), [("[channel]\nid = 'x'", "a channel"), ("[[hooks]]\nid = 'x'", "hooks for")]
)
def test_a_package_without_tools_is_refused_with_its_contents(tmp_path: Path, section: str, said: str) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    head = 'schema_version = "reborn.extension_manifest.v3"\nid = "x"\n[runtime]\nkind = "wasm"\nmodule = "a.wasm"\n'
    (folder / "manifest.toml").write_text(head + section)

    with pytest.raises(PackageError, match=said):
        read_package(open_files(folder))


def test_sections_that_are_not_tools_are_omitted_and_reported(tmp_path: Path) -> None:
    assert read(tmp_path).left == ("[channel] was omitted: a channel (chat messages), not a tool",)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "wasm/../../x", "no/such.wasm"])
def test_a_file_of_the_manifest_must_be_inside_the_package(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackageError):
        edit(tmp_path, "wasm/desk_tool.wasm", name)


def test_an_invalid_schema_is_a_problem_of_its_tool_only(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "desk", WASM)
    (folder / "schemas/desk/purge_tickets.input.v1.json").write_text('{"type": "strnig"}')
    _, purging, _ = read_package(open_files(folder)).tools or ()

    assert purging.schema == {"type": "object"}
    assert "schemas/desk/purge_tickets.input.v1.json" in purging.problems[0]


@pytest.mark.parametrize("text", ["", "[", "a = 1" * 100_000, "a = " + "[" * 5000, "\x00", "\ud800"])
def test_a_manifest_that_is_not_toml_raises_a_typed_error(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "manifest.toml").write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(WasmrtError):
        read_package(open_files(folder))


def test_a_folder_without_a_manifest_is_not_a_package(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"manifest\.toml"):
        read_package(open_files(tmp_path))


def test_the_standard_has_sixteen_operations_with_valid_schemas() -> None:
    operations = standard_operations()

    assert len(operations) == 16
    assert sum(operation.writes for operation in operations.values()) == 6
    for operation in operations.values():
        assert schema_problem(operation.input_schema) is None
        assert schema_problem(operation.output_schema) is None
        for provider in ("openai", "anthropic", "mcp"):
            render(operation.name, operation.description, operation.input_schema, provider)  # type: ignore[arg-type]


REF = {"conversation": "c", "message_id": "m"}
CALLS: dict[str, dict[str, Any]] = {
    "send_message": {"conversation": "c", "text": "t", "reply_to": REF},
    "edit_message": {"message_ref": REF, "text": "t"},
    "delete_message": {"message_ref": REF},
    "remove_reaction": {"message_ref": REF},
    "list_conversations": {"kinds": ["dm", "channel"], "limit": 5},
    "get_thread_replies": {"conversation": "c", "thread": "t"},
    "search_messages": {"query": "q", "sort": "timestamp"},
    "whoami": {},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_standard_operation_accepts_only_its_parameters(name: str) -> None:
    validator = Validator(standard_operations()[name].input_schema)

    validator.check(CALLS[name])
    with pytest.raises(WasmrtError):
        validator.check({**CALLS[name], "vendor_knob": 1})
