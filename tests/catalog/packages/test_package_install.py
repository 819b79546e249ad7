"""The commands for packages: install, list, inspect, run, grant, explain and pack."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from wasmrt.testing import MemorySecrets

from tests.catalog.packages.desk_package import HERE, write_package
from wasmrt.capabilities.file import OAuthConfig, format_file
from wasmrt.catalog.package import FolderFiles, open_files, pack, read_archive, read_package
from wasmrt.cli import cli
from wasmrt.cli.shared.logins import settings
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import MAX_TOOLS_PER_COMPONENT
from wasmrt.egress.secrets import Secret

Run = Callable[..., Result]


@pytest.fixture
def wasmrt(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: str | Path, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="wasmrt")
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
        return result

    return run


@pytest.fixture
def folder(tmp_path: Path, desk_wasm: bytes) -> Path:
    return write_package(tmp_path / "desk", desk_wasm)


def archived(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    return path


@pytest.mark.parametrize("given", ["folder", "manifest", "archive"])
def test_a_package_is_installed_from_a_folder_its_manifest_or_an_archive(
    wasmrt: Run, folder: Path, given: str, tmp_path: Path
) -> None:
    source = {"folder": folder, "manifest": folder / "manifest.toml"}.get(given)
    installed = json.loads(wasmrt("install", source or archived(folder, tmp_path / "d.zip"), "--yes", "--json").stdout)

    assert (installed["name"], installed["tools"]) == ("desk", 3)
    assert [secret["name"] for secret in installed["missing_secrets"]] == [
        "desk_token",
        "desk_oauth_client_id",
        "desk_oauth_client_secret",
        "vault_key",
    ]
    assert "[channel] was omitted" in installed["warnings"][0]
    assert "desk  1        3" in wasmrt("list").stdout


def test_an_installed_tool_of_a_package_runs_under_its_own_name(wasmrt: Run, folder: Path) -> None:
    wasmrt("install", folder, "--yes")

    refused = wasmrt("run", "desk", '{"action": "list_tickets"}', "--tool", "list_tickets", code=2)
    assert "unknown field action" in refused.stderr
    denied = wasmrt("run", "desk", '{"host": "vault.desk.example"}', "--tool", "list_tickets", code=3)
    assert ", and in tools.list_tickets" in denied.stderr
    several = wasmrt("run", "desk", "{}", code=2)
    assert "list_tickets, purge_tickets, send_message" in several.stderr


def test_nothing_is_installed_without_approval(wasmrt: Run, folder: Path) -> None:
    refused = wasmrt("install", folder, code=3)

    assert "list_tickets also can read what your secret desk_token opens at api.desk.example" in refused.stderr
    assert "may GET and HEAD https://api.desk.example" in refused.stderr
    assert "no tools are installed" in wasmrt("list").stderr


def test_only_selected_tools_are_granted(wasmrt: Run, folder: Path) -> None:
    wasmrt("install", folder, "--yes", "--tool", "list_*")
    report = json.loads(wasmrt("inspect", "desk", "--json").stdout)

    may = {name: group["may"] for group in report["groups"] for name in group["tools"]}
    assert may["list_tickets"]
    assert (may["purge_tickets"], may["send_message"]) == ([], [])
    assert "did you mean list_tickets" in wasmrt("install", folder, "--yes", "--tool", "list_ticket", code=2).stderr


def test_an_update_with_an_additional_tool_is_pending(
    wasmrt: Run, folder: Path, desk_wasm: bytes, tmp_path: Path
) -> None:
    wasmrt("install", folder, "--yes", "--tool", "list_tickets")
    refused = wasmrt("install", folder, code=3)

    assert "purge_tickets: may send any request to https://vault.desk.example" in refused.stderr
    granted = wasmrt("grant", "desk", "--yes", "--json")
    assert json.loads(granted.stdout)["number"] == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"ask"\nvisibility = "model"',
            '"allow"\nvisibility = "model"',
            "purge_tickets: the package's permission was 'ask'",
        ),
        ('visibility = "hidden"', 'visibility = "model"', "send_message was hidden from models"),
    ],
)
def test_an_update_with_a_less_strict_permission_needs_a_decision(
    wasmrt: Run, folder: Path, desk_wasm: bytes, tmp_path: Path, old: str, new: str, said: str
) -> None:
    wasmrt("install", folder, "--yes")
    looser = write_package(tmp_path / "looser" / "desk", desk_wasm, edits={old: new})

    assert said in wasmrt("install", looser, code=3).stderr
    wasmrt("grant", "desk", "--yes")
    assert "waits" not in wasmrt("install", folder).stderr, "a stricter permission needs no decision"


def test_inspect_groups_a_packages_tools_by_permissions(wasmrt: Run, folder: Path) -> None:
    shown = wasmrt("inspect", f"{folder}/").stdout

    assert "tools: 3, by what they request" in shown
    assert "only reads, without approval: list_tickets" in shown
    assert "writes, requires approval: purge_tickets" in shown
    assert "writes, requires approval, hidden from models: send_message" in shown
    assert "with your secret vault_key in the x-vault-key header" in " ".join(shown.split())


def test_inspect_of_one_tool_shows_its_document(wasmrt: Run, folder: Path) -> None:
    wasmrt("install", folder, "--yes")
    shown = wasmrt("inspect", "desk", "--tool", "list_tickets").stdout

    assert "Ask for `open` ones first; there are many closed ones." in shown
    assert 'params: state?: "open" | "closed"' in shown
    assert "did you mean list_tickets" in wasmrt("inspect", "desk", "--tool", "list_ticket", code=2).stderr


@pytest.fixture
def large(tmp_path: Path, desk_wasm: bytes) -> Path:
    """Return a package with forty-nine tools of two vendors: reading, writing and hidden ones."""
    folder = write_package(tmp_path / "large", desk_wasm)
    text = (folder / "manifest.toml").read_text()
    head, rest = text[: text.index("[[tools]]")], text[text.index("[auth.desk]") :]
    tools = []
    for number in range(49):
        vendor, host = ("desk", "api") if number % 5 else ("vault", "vault")
        effects = '"network", "use_secret"' + (', "external_write"' if number % 3 == 0 else "")
        tools.append(
            f'[[tools]]\nid = "desk.tool_number_{number:02}"\ndescription = "Does a thing."\neffects = [{effects}]\n'
            f'default_permission = "{"ask" if number % 3 == 0 else "allow"}"\nvisibility = "model"\n'
            'input_schema_ref = "schemas/desk/purge_tickets.input.v1.json"\n'
            f'[[tools.credentials]]\nhandle = "{vendor}_key"\nvendor = "{vendor}"\n'
            f'audience = {{ scheme = "https", host = "{host}.desk.example" }}\n'
            'injection = { type = "header", name = "authorization", prefix = "Bearer " }\n'
        )
    (folder / "manifest.toml").write_text("\n".join([head, *tools, rest]))
    return folder


def screen(text: str, width: int = 120) -> int:
    """Return the number of terminal lines that a text needs."""
    return sum(1 + max(0, len(line) - 1) // width for line in text.splitlines())


def test_inspect_of_forty_nine_tools_fits_one_screen_and_covers_each(wasmrt: Run, large: Path) -> None:
    shown = wasmrt("inspect", f"{large}/").stdout
    explained = "\n".join(json.loads(wasmrt("inspect", f"{large}/", "--json").stdout)["asks"])

    assert screen(shown) <= 50
    assert screen(explained) <= 50
    assert all(f"tool_number_{number:02}" in shown for number in range(49))
    assert all(f"tool_number_{number:02}" in explained for number in range(49))
    blocks = [" ".join(block.split()) for block in re.split(r"\n  (?=only reads|writes)", shown)]
    for number in range(10):
        [block] = [block for block in blocks if f"tool_number_{number:02}" in block]
        assert block.startswith("writes" if number % 3 == 0 else "only reads")
        assert ("requires approval" in block) == (number % 3 == 0)
        assert ("vault.desk.example" in block) == (number % 5 == 0)
        assert ("secret vault_key" in block) == (number % 5 == 0)
        assert ("GET and HEAD" in block) == (number % 3 != 0)


def test_explain_answers_five_questions_about_each_of_forty_nine_tools(
    wasmrt: Run, large: Path, tmp_path: Path
) -> None:
    file = tmp_path / "large.capabilities.json"
    file.write_text(format_file(read_package(open_files(large)).request))
    explained = wasmrt("caps", "explain", file).stdout

    assert screen(explained) <= 50
    for number in range(10):
        sentences = [line for line in explained.splitlines() if f"tool_number_{number:02}" in line]
        said = " ".join(sentences)
        assert ("https://vault.desk.example" in said) == (number % 5 == 0), "the allowed host"
        assert ("https://api.desk.example" in said) == (number % 5 != 0), "and no other host"
        assert ("secret vault_key in the Authorization header" in said) == (number % 5 == 0), (
            "the secret and its location"
        )
        assert ("GET and HEAD" in said) == (number % 3 != 0), "the methods"
        assert "60 times a minute" in said or "every tool may send those requests 60 times" in explained, (
            "the rate limit"
        )


def test_a_component_without_its_package_shows_its_tagged_union_as_one_tool(
    wasmrt: Run, tmp_path: Path, desk_wasm: bytes
) -> None:
    (tmp_path / "bare.wasm").write_bytes(desk_wasm)
    shown = wasmrt("inspect", tmp_path / "bare.wasm").stdout

    assert "params: action is one of: list_tickets, purge_tickets" in shown
    assert "#/$defs/gone" in " ".join(shown.split()), "the dangling branch is reported"


OWN = """
name = "parrot"
version = "2.0"
description = "Says it again."
license = "MIT"
source = "https://example.com/parrot"
files = ["README.md"]

[[tools]]
name = "say"
id = "parrot.whoami_context"
description = "Say it again."
input = "schemas/say.json"
"""


@pytest.fixture
def own(tmp_path: Path, desk_wasm: bytes) -> Path:
    folder = tmp_path / "own"
    (folder / "schemas").mkdir(parents=True)
    (folder / "wasmrt.toml").write_text(OWN)
    (folder / "parrot.wasm").write_bytes(desk_wasm)
    (folder / "parrot.capabilities.json").write_text('{"http": {"allowlist": [{"host": "api.example.com"}]}}')
    (folder / "README.md").write_text("# Parrot\n")
    (folder / "schemas/say.json").write_text('{"type": "object", "additionalProperties": false}')
    return folder


def test_a_wasmrt_package_is_packed_installed_and_run(wasmrt: Run, own: Path, tmp_path: Path) -> None:
    target = tmp_path / "parrot.zip"
    wasmrt("pack", own, "--to", target)
    wasmrt("install", target, "--yes")

    assert json.loads(wasmrt("run", "parrot", "{}").stdout) == {"capability_id": "parrot.whoami_context"}
    assert "no value is allowed here" in wasmrt("run", "parrot", '{"x": 1}', code=2).stderr
    assert json.loads(wasmrt("inspect", target, "--json").stdout)["asks"][0].startswith("may send any request")


def test_a_package_with_an_invalid_schema_is_neither_packed_nor_installed(wasmrt: Run, own: Path) -> None:
    (own / "schemas/say.json").write_text('{"type": "object", "required": "text"}')
    for command in (("pack", own), ("install", own, "--yes")):
        refused = json.loads(wasmrt(*command, "--json", code=2).stderr)
        assert refused["code"] == "broken-schema"
        assert "schemas/say.json: the schema is invalid at required" in refused["message"]


def test_an_ironclaw_package_with_an_invalid_schema_is_not_installed(wasmrt: Run, folder: Path) -> None:
    schema = next(folder.rglob("*.input.v1.json"))
    schema.write_text('{"type": "object", "required": "text"}')
    assert json.loads(wasmrt("install", folder, "--yes", "--json", code=2).stderr)["code"] == "broken-schema"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("digests.json", "package-digest"),
        ("readme.md", "package-case"),
        ("../x", "package-name"),
        ("no", "package-missing"),
    ],
)
def test_an_archive_that_an_install_would_refuse_is_not_created(own: Path, name: str, code: str) -> None:
    (own / "wasmrt.toml").write_text(OWN.replace('["README.md"]', f'["README.md", "{name}"]'))
    for extra in ("digests.json", "readme.md"):
        (own / extra).write_text("{}")

    with pytest.raises(PackageError) as refused:
        pack(FolderFiles(own))
    assert refused.value.code == code


def test_a_folder_without_wasmrt_toml_is_not_packed_and_the_reason_is_shown(wasmrt: Run, folder: Path) -> None:
    refused = wasmrt("pack", folder, code=2).stderr

    assert "package desk has no wasmrt.toml" in refused
    assert "wasmrt new writes one" in refused


def test_a_folder_with_a_tools_name_is_distinguished_from_the_tool(
    wasmrt: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)

    assert "for the folder, write ./desk" in wasmrt("inspect", "desk", code=2).stderr


def test_equal_files_produce_equal_archives(own: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(own, again, copy_function=shutil.copyfile)
    (again / "left-alone.txt").write_text("not named")

    assert pack(FolderFiles(own)) == pack(FolderFiles(again))
    name, data = pack(FolderFiles(own))
    assert name == "parrot-2.0.zip"
    assert sorted(read_archive(data)) == [
        "README.md",
        "digests.json",
        "parrot.capabilities.json",
        "parrot.wasm",
        "schemas/say.json",
        "wasmrt.toml",
    ]


@pytest.mark.parametrize("change", ["exchanged", "added", "removed"])
def test_an_archive_that_was_changed_after_packing_is_refused(
    wasmrt: Run, own: Path, tmp_path: Path, change: str
) -> None:
    files = read_archive(pack(FolderFiles(own))[1])
    if change == "removed":
        del files["README.md"]
    else:
        files["README.md" if change == "exchanged" else "more.txt"] = b"x"
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)

    refused = wasmrt("install", tmp_path / "p.zip", "--yes", "--json", code=2)
    assert json.loads(refused.stderr)["code"] == "package-digest"


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        ('version = "2.0"', "version"),
        ('name = "parrot"', "name"),
        ('name = "say"', "tools"),
    ],
)
def test_every_error_of_a_package_file_is_reported_with_its_key(wasmrt: Run, own: Path, edit: str, place: str) -> None:
    key = edit.partition(" ")[0]
    (own / "wasmrt.toml").write_text(OWN.replace(edit, f'{key} = "../x"' if key == "name" else f"{key} = 2"))

    assert place in wasmrt("pack", own, code=2).stderr


def test_the_number_of_a_packages_tools_is_bounded(wasmrt: Run, tmp_path: Path, desk_wasm: bytes) -> None:
    folder = write_package(tmp_path / "many", desk_wasm)
    text = (folder / "manifest.toml").read_text()
    tool = '[[tools]]\nid = "desk.t{}"\ninput_schema_ref = "x"\n'
    many = "".join(tool.format(number) for number in range(MAX_TOOLS_PER_COMPONENT + 1))
    (folder / "manifest.toml").write_text(text + many)

    assert "more than 128 tools" in wasmrt("install", folder, "--yes", code=2).stderr


def test_the_guest_of_these_tests_is_built_from_its_source() -> None:
    assert (HERE / "guest/src/lib.rs").is_file()


def test_the_parameter_schema_of_a_sidecar_applies_to_a_tool_without_a_package(
    wasmrt: Run, tmp_path: Path, desk_wasm: bytes
) -> None:
    (tmp_path / "bare.wasm").write_bytes(desk_wasm)
    schema = {"type": "object", "properties": {"state": {"type": "string"}}, "additionalProperties": False}
    (tmp_path / "bare.capabilities.json").write_text(json.dumps({"parameters": schema}))
    wasmrt("install", tmp_path / "bare.wasm", "--yes")

    context = '{"capability_id": "desk.whoami_context"}'
    for tool in ("bare", f"{tmp_path}/bare.wasm"):
        assert json.loads(wasmrt("run", tool, "{}", "--context", context).stdout) == json.loads(context)
        assert "unknown field action" in wasmrt("run", tool, '{"action": "x"}', code=2).stderr
    assert "The tools of a help desk." in wasmrt("inspect", "bare").stdout


def test_settings_are_requested_from_the_user_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    monkeypatch.setattr("wasmrt.cli.grant.plans.is_interactive", lambda: True)

    def install(answers: str) -> Result:
        return CliRunner().invoke(cli, ["install", str(folder)], input=answers)

    first = install("y\nan-id-of-desk\n\n")
    assert first.exit_code == 0, first.stderr
    assert "desk_oauth_client_id (Client ID)" in first.stderr
    assert "an-id-of-desk" not in first.output
    second = install("\n")
    assert second.exit_code == 0, second.stderr
    assert "desk_oauth_client_id (Client ID)" not in second.stderr
    assert "desk_oauth_client_secret (Client secret)" in second.stderr


def test_a_login_uses_no_client_named_after_another_tool() -> None:
    kept = MemorySecrets()
    for name in ("desk_oauth_client_id", "mail_oauth_client_id"):
        kept.set("local", name, Secret(f"the-{name}"))
    login = OAuthConfig(
        authorization_url="https://a.example", token_url="https://a.example", client_id_env="MAIL_OAUTH_CLIENT_ID"
    )

    assert settings(kept, "local", "desk", login) == {}
    assert settings(kept, "local", "mail", login) == {"MAIL_OAUTH_CLIENT_ID": "the-mail_oauth_client_id"}
