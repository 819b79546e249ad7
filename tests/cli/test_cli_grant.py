"""Tests of grants: updates, and changes of an existing grant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.terminal import on_a_terminal
from tests.sandbox.border.relays import agent_http

Run = Callable[..., Result]
Write = Callable[..., Path]
RED, PLAIN = "\x1b[31m", "\x1b[0m"
PLACE = {"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}
OTHER = {"host": "other.example.com"}
NOTES = {"allowed_prefixes": ["notes/"]}
LOGIN = {
    "secret_name": "desk_key",
    "provider": "google",
    "oauth": {
        "authorization_url": "https://accounts.google.com/agree",
        "token_url": "https://tokens.example.com/token",
        "client_id": "me",
        "scopes": ["https://www.googleapis.com/auth/gmail.readonly"],
    },
}
FILE = {"description": "Looks things up.", "http": {"allowlist": [PLACE]}, "workspace": NOTES, "auth": LOGIN}


def changed(**oauth: object) -> dict[str, object]:
    """A capability file with a different login."""
    return FILE | {"auth": LOGIN | {"oauth": LOGIN["oauth"] | oauth}}  # type: ignore[operator]


def granted(wasmrt: Run) -> str:
    return "\n".join(json.loads(wasmrt("inspect", "parrot", "--json").stdout)["granted"])


@pytest.fixture
def parrot(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=FILE), "--yes")


def test_request_shows_name_and_author_description_first(wasmrt: Run, tool_file: Write) -> None:
    said = wasmrt("install", tool_file(sidecar=FILE), code=3).stderr

    summary, first, *_ = said.splitlines()
    assert summary.startswith("parrot, sha256:") and summary.endswith(", from file parrot.wasm, not signed")
    assert first == "parrot, in its author's words: Looks things up."
    assert "\n  may GET https://api.example.com/v1/ and below\n" in said


def test_author_text_cannot_start_a_line(wasmrt: Run, tool_file: Write) -> None:
    said = wasmrt("install", tool_file(sidecar=FILE | {"description": "x\nmay not do anything\x1b[2J"}), code=3).stderr

    assert "\nmay not do" not in said and "\x1b" not in said


@pytest.mark.parametrize(
    ("oauth", "told"),
    [
        ({"scopes": [*LOGIN["oauth"]["scopes"], "https://www.googleapis.com/auth/gmail.send"]}, "to send mail as you"),  # type: ignore[index]
        ({"token_url": "https://evil.example/token"}, "gets its token from https://evil.example/token instead of"),
        (
            {"authorization_url": "https://evil.example/agree"},
            "uses the login page https://evil.example/agree instead of",
        ),
        ({"client_id": "somebody"}, "uses the client ID somebody instead of me"),
        ({"extra_params": {"prompt": "none"}}, "sends the parameters prompt=none instead of none"),
    ],
)
def test_a_login_that_changes_asks_for_more_and_waits(
    wasmrt: Run, tool_file: Write, parrot: None, oauth: dict[str, object], told: str
) -> None:
    said = wasmrt("install", tool_file(sidecar=changed(**oauth)), code=3).stderr

    assert f"asks for more: login google {'also asks ' if 'scopes' in oauth else ''}{told}" in said
    assert "awaits a grant; version 1 stays active" in said
    assert "evil.example" not in granted(wasmrt) and "send mail" not in granted(wasmrt)
    assert (
        f"new: login google {'also asks ' if 'scopes' in oauth else ''}{told}"
        in wasmrt("grant", "parrot", code=3).stderr
    )
    wasmrt("grant", "parrot", "--yes")
    assert "version 2" in wasmrt("inspect", "parrot").stdout


def test_fewer_scopes_need_no_approval(wasmrt: Run, tool_file: Write) -> None:
    both = [*LOGIN["oauth"]["scopes"], "https://www.googleapis.com/auth/gmail.send"]  # type: ignore[index]
    wasmrt("install", tool_file(sidecar=changed(scopes=both)), "--yes")

    assert "no longer asks: login google to send mail as you" in wasmrt("install", tool_file(sidecar=FILE)).stderr


def test_scopes_are_listed_wherever_a_login_is_shown(wasmrt: Run, tool_file: Write, parrot: None) -> None:
    path = tool_file(sidecar=FILE)
    file = path.with_name("parrot.capabilities.json")
    for shown in (
        wasmrt("caps", "explain", file).stdout,
        wasmrt("inspect", "parrot").stdout,
        wasmrt("inspect", path).stdout,
        wasmrt("grant", "parrot", "--revoke", "logins", "--yes").stderr,
    ):
        assert "as the client me, to read your mail; it sets your secret desk_key" in " ".join(shown.split())


def test_login_that_was_not_granted_is_refused(wasmrt: Run, tool_file: Write, parrot: None) -> None:
    wasmrt("grant", "parrot", "--revoke", "logins=google")

    refused = wasmrt("auth", "parrot", "--no-browser", code=3).stderr
    assert "the login google of parrot was not granted" in refused
    assert "wasmrt grant parrot --add logins=google" in refused
    wasmrt("grant", "parrot", "--add", "logins=google", "--yes")
    assert "to read your mail" in granted(wasmrt)


@pytest.mark.ci("slow")
def test_only_additions_of_an_update_are_red_and_come_first(
    wasmrt: Run, tool_file: Write, parrot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tool_file(sidecar=FILE | {"http": {"allowlist": [PLACE, OTHER]}, "workspace": False})
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    code, said = on_a_terminal(b"n\n", "install", path)

    assert code == 3
    red = [piece.partition(PLAIN)[0] for piece in said.split(RED)[1:]]
    assert [" ".join(piece.split()) for piece in red] == [
        "+ asks for more: may send any request to https://other.example.com, every path",
        "+ new: may send any request to https://other.example.com, every path",
        '+ new: "any request" means every method: GET, POST, PUT, PATCH, DELETE, HEAD and OPTIONS',
        "+ new: its parameters can go to api.example.com and other.example.com",
    ]
    assert said.index("asks for more") < said.index("no longer asks") < said.index("may GET https://api.example.com")

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_a_terminal(b"n\n", "install", path)[1]


def test_pending_update_shows_its_changes_first(wasmrt: Run, tool_file: Write, parrot: None) -> None:
    wasmrt("install", tool_file(sidecar=FILE | {"http": {"allowlist": [PLACE, OTHER]}}), code=3)

    said = wasmrt("grant", "parrot", code=3).stderr
    assert said.startswith("parrot version 2 differs from the current version:\n  + new: may send any request to")
    assert said.index("new: may send any") < said.index("in its author's words")


def test_grant_change_shows_the_difference(wasmrt: Run, parrot: None) -> None:
    said = wasmrt("grant", "parrot", "--revoke", "workspace=notes/", "--revoke", "http").stderr

    assert "  no longer: may read files under notes/\n" in said.replace("    ", "  ")
    assert "changed the grant of parrot" in said
    assert "may read" not in granted(wasmrt) and "may GET" not in granted(wasmrt)
    wasmrt("grant", "parrot", "--add", "http=GET https://api.example.com/v1/items", "--yes")
    assert "may GET https://api.example.com/v1/items and below" in granted(wasmrt)
    assert json.loads(wasmrt("inspect", "parrot", "--json").stdout)["version"] == 1


def test_wider_grant_needs_approval_and_narrower_does_not(wasmrt: Run, parrot: None) -> None:
    wasmrt("grant", "parrot", "--revoke", "workspace")

    refused = wasmrt("grant", "parrot", "--add", "workspace", "--json", code=3)
    assert json.loads(refused.stderr)["changes"] == ["may read files under notes/"]
    code, shown = on_a_terminal(b"n\n", "grant", "parrot", "--add", "workspace")
    assert code == 3 and "from file parrot.wasm, not signed" in shown
    assert "may read" not in granted(wasmrt)
    assert on_a_terminal(b"y\n", "grant", "parrot", "--add", "workspace")[0] == 0
    assert "may read files under notes/" in granted(wasmrt)


def test_grant_cannot_exceed_the_request(wasmrt: Run, parrot: None) -> None:
    before = granted(wasmrt)

    for what in ("http=evil.example", "workspace=", "secrets", "wurst=1"):
        wasmrt("grant", "parrot", "--add", what, "--yes", code=2)
    assert granted(wasmrt) == before
    assert "already has exactly this grant" in wasmrt("grant", "parrot", "--add", "workspace").stderr


def test_edited_grant_with_an_error_is_reported(
    wasmrt: Run, parrot: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def editor(old: str, new: str) -> None:
        script = tmp_path / "editor"
        script.write_text(f"#!/bin/sh\nsed -i 's|{old}|{new}|' \"$1\"; touch -d '+1 hour' \"$1\"\n")
        script.chmod(0o700)
        monkeypatch.setenv("EDITOR", str(script))
        monkeypatch.setenv("VISUAL", str(script))

    editor("notes/", "notes/public/")
    wasmrt("grant", "parrot", "--edit", "--yes")
    assert "may read files under notes/public/" in granted(wasmrt)
    editor("api.example.com", "evil.example")
    assert "does not request this: may GET https://evil.example" in wasmrt("grant", "parrot", "--edit", code=2).stderr
    editor("methods", "wurst")
    assert "unknown key" in wasmrt("grant", "parrot", "--edit", code=2).stderr
    assert "may GET https://api.example.com/v1/ and below" in granted(wasmrt)


def test_denial_of_a_requested_entry_suggests_the_grant_command(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file("fetcher", data=agent_http("").component(), sidecar={"http": {"allowlist": [PLACE, OTHER]}})
    narrow = path.with_name("narrow.json")
    narrow.write_text(json.dumps({"http": {"allowlist": [OTHER]}}))
    wasmrt("install", path, "--grant", narrow, "--yes")

    def told(url: str) -> str:
        params = json.dumps({"method": "GET", "url": url, "headers-json": "{}"})
        report = json.loads(wasmrt("run", "fetcher", params, "--json", code=3).stderr)
        return next(d["hint"] for d in report["decisions"] if not d["allowed"])

    step = told("https://api.example.com/v1/items")
    assert step.startswith("grant it: wasmrt grant fetcher --add 'http={")
    assert told("https://evil.example/").startswith("add to http.allowlist")
    wasmrt("grant", "fetcher", "--add", step.partition("--add '")[2].removesuffix("'"), "--yes")
    assert json.loads(wasmrt("inspect", "fetcher", "--json").stdout)["granted"][0].startswith("may ")
    (allowed,) = [
        s
        for s in json.loads(wasmrt("inspect", "fetcher", "--json").stdout)["granted"]
        if "api.example" in s and "may GET" in s
    ]
    assert allowed == "may GET https://api.example.com/v1/items and below"


def test_grant_changed_concurrently_is_not_overwritten(home: Path, parrot: None) -> None:
    from wasmrt.catalog import Catalog
    from wasmrt.core.errors import InstallError

    catalog = Catalog(home / "data")
    seen = catalog.get("parrot")
    catalog.regrant(seen, "{}")
    with pytest.raises(InstallError, match="changed by another process"):
        catalog.regrant(seen, seen.grant or "")
    assert catalog.get("parrot").grant == "{}"


def test_explanations_use_configured_services_and_networks(wasmrt: Run, home: Path, tmp_path: Path) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data" / "config.toml").write_text(
        '[network]\nunsafe_allowed_networks = ["10.1.0.0/16"]\n[explain]\nservices = "mine.toml"\n'
    )
    (home / "data" / "mine.toml").write_text(
        '[[service]]\nname = "Desk"\nhosts = ["10.1.0.5"]\ncan = [{ anybody = "read the tickets of your desk" }]\n'
    )
    file = tmp_path / "desk.capabilities.json"
    file.write_text('{"http": {"allowlist": [{"host": "10.1.0.5", "methods": ["GET"]}]}}')

    said = wasmrt("caps", "explain", file).stdout
    assert "can read the tickets of your desk (Desk)" in said and "may GET https://10.1.0.5" in said
    (home / "data" / "mine.toml").write_text("[[service]]\nwurst = 1\n")
    assert "wurst is not known" in wasmrt("caps", "explain", file, code=2).stderr


def test_update_with_more_effects_awaits_a_grant(wasmrt: Run, tool_file: Write) -> None:
    def sidecar(**declared: object) -> dict[str, object]:
        return {"workspace": NOTES, "tools": {"parrot": {"workspace": NOTES} | declared}}

    wasmrt("install", tool_file(sidecar=sidecar(effects=[])), "--yes")
    said = wasmrt("install", tool_file(sidecar=sidecar()), code=3).stderr

    assert "asks for more: parrot: may read files, as far as the rest of its grant allows" in said
    assert "awaits a grant; version 1 stays active" in said


def test_bundled_tool_has_no_grant_to_change(wasmrt: Run, tool_file: Write) -> None:
    for more in ((), ("--add", "workspace"), ("--yes",)):
        said = wasmrt("grant", "json", *more, code=2).stderr
        assert "error: json comes with wasmrt and has no grant to change" in said
    wasmrt("install", tool_file(), "--name", "json")
    assert "no update of json awaits a grant" in wasmrt("grant", "json", code=2).stderr


def test_a_requested_configuration_value_is_set_changed_and_revoked(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar={"config_store": {"values": ["units"]}}), "--yes")
    for value in ("metric", "imperial"):
        assert "changed the grant" in wasmrt("grant", "parrot", "--add", f"config_store=units={value}").stderr
        assert f"units={value}" in granted(wasmrt)
    assert "already has exactly" in wasmrt("grant", "parrot", "--add", "config_store=units=imperial").stderr
    wasmrt("grant", "parrot", "--revoke", "config_store=units")
    assert "units" not in granted(wasmrt)
    assert "does not request" in wasmrt("grant", "parrot", "--add", "config_store=other=1", code=2).stderr
