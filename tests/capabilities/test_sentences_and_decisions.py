"""Ten varied files with five uses each: the sentence of the explanation and the decision about the use agree.

A reader of the explanation alone should predict every decision.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from wasmrt.capabilities.sentences import ANYWHERE
from wasmrt.cli import cli

FOLDER = Path(__file__).with_name("varied")
GITHUB = "https://api.github.com/repos"
DESK = "https://desk.example.com/api"
MAPS = "https://maps.example.com"
GRAPH = "https://graph.microsoft.com/v1.0/me"
YES, NO = True, False
ISSUES = "may GET https://api.github.com/repos/*/*/issues and below"
ONE_ISSUE = "may PATCH https://api.github.com/repos/*/*/issues/* (each * is any one segment, nothing below)"
SUBDOMAINS = "https://*.example.com (ports 443 or 8443)/v1/ and below, at every subdomain, but not example.com itself"
STATUS = "may GET and HEAD unencrypted http://status.example.org, every path"
FEEDS = f"may GET at {ANYWHERE} over https, /feed and below"
TICKETS = "may GET https://desk.example.com/api/tickets and below"
MAIL = "may send any request to https://graph.microsoft.com/v1.0/me/messages and below"

USES: list[tuple[str, str, bool, str]] = [
    ("issues", f"--url {GITHUB}/bob/x/issues/7", YES, ISSUES),
    ("issues", f"--url {GITHUB}/bob/x/issues/7 --method PATCH", YES, ONE_ISSUE),
    ("issues", f"--url {GITHUB}/acme/x/issues/7/comments --method PATCH", NO, ONE_ISSUE),
    ("issues", f"--url {GITHUB}/bob/x/issuesX", NO, ISSUES),
    ("issues", f"--url {GITHUB}/acme/x/issues/7 --method DELETE", NO, "may not do anything else"),
    ("subdomains", "--url https://a.example.com:8443/v1/x --method POST", YES, SUBDOMAINS),
    ("subdomains", "--url https://a.b.example.com/v1/x", YES, SUBDOMAINS),
    ("subdomains", "--url https://example.com/v1/", NO, SUBDOMAINS),
    ("subdomains", "--url https://a.example.com:8444/v1/x", NO, SUBDOMAINS),
    ("subdomains", "--url http://status.example.org/x --method POST", NO, STATUS),
    ("subdomains", "--url https://status.example.org/", NO, STATUS),
    ("anyhost", "--url https://anything.example/feed/x", YES, FEEDS),
    ("anyhost", "--url https://anything.example/", NO, FEEDS),
    ("anyhost", "--url http://anything.example/feed", NO, FEEDS),
    ("anyhost", "--url https://hooks.example.net/in/7/x --method POST", NO, "/in/7 (this path only)"),
    ("anyhost", "--url https://hooks.example.net/feed", YES, FEEDS),
    ("anyhost", "--url https://a.example/feed --resolves-to 10.0.0.7", NO, "or reach non-public addresses"),
    ("files", "--path notes/a/b.txt", YES, "may read files under notes/"),
    ("files", "--path photos/2026", YES, "may read photos/2026 and files under photos/2026/"),
    ("files", "--path photos/2026.zip", NO, "may read photos/2026 and files under photos/2026/"),
    ("files", "--write notes/done/x.txt", YES, "may write files under notes/done/"),
    ("files", "--write notes/x.txt", NO, "may write files under notes/done/"),
    ("files", "--write notes/done/AGENTS.md", NO, "may not write the agent's identity files, such as AGENTS.md"),
    ("allwrite", "--write anything.txt", YES, "may write every file of the workspace"),
    ("allwrite", "--path anything.txt", NO, "may read files under in/"),
    ("allwrite", "--write AGENTS.md", NO, "may not write the agent's identity files, such as AGENTS.md"),
    ("allwrite", "--url https://drop.example.com/x --method PUT", YES, "may PUT https://drop.example.com, every path"),
    ("allwrite", "--url https://drop.example.com/x", NO, "may PUT https://drop.example.com, every path"),
    ("secrets", "--secret stripe_live", YES, "never what they are: stripe_* and mail_password"),
    ("secrets", "--secret mail_password2", NO, "never what they are: stripe_* and mail_password"),
    ("secrets", "--alias parse", YES, "may call the tools json (as parse) and mailer.send_mail (as send)"),
    ("secrets", "--alias json", NO, "may call the tools json (as parse) and mailer.send_mail (as send)"),
    ("secrets", "--url https://a.example/", NO, "may not send anything over the network itself"),
    ("desk", f"--url {DESK}/tickets/5", YES, TICKETS),
    (
        "desk",
        f"--url {DESK}/export --method POST",
        YES,
        "may POST https://desk.example.com/api/export (this path only)",
    ),
    ("desk", f"--url {DESK}/tickets --method POST", NO, TICKETS),
    ("desk", "--path reports/a.txt", YES, "may read files under reports/"),
    ("desk", "--path other/a.txt", NO, "may read files under reports/"),
    ("keyinurl", f"--url {MAPS}/tiles/1", YES, "may GET https://maps.example.com/tiles and below"),
    ("keyinurl", f"--url {MAPS}/tiles2", NO, "may GET https://maps.example.com/tiles and below"),
    (
        "keyinurl",
        f"--url {MAPS}/upload --method POST",
        YES,
        "may POST https://maps.example.com/upload (this path only)",
    ),
    ("keyinurl", f"--url {MAPS}/upload", NO, "may POST https://maps.example.com/upload (this path only)"),
    ("limits", "--url http://10.1.2.3:8080/", NO, "which is refused: 10.1.2.3 is private, not public"),
    (
        "limits",
        "--url https://build.example.com/x --method DELETE",
        YES,
        "may send any request to https://build.example.com",
    ),
    ("limits", "--url https://build.example.com/ --resolves-to 10.0.0.1", NO, "every path, at public addresses only"),
    ("limits", "--path a.txt", NO, "may not read or write files"),
    ("login", f"--url {GRAPH}/messages/1 --method DELETE", YES, MAIL),
    ("login", f"--url {GRAPH}/messages/1/send --method POST", YES, "can send mail as you (Microsoft 365)"),
    ("login", f"--url {GRAPH}/messagesX", NO, MAIL),
    ("login", f"--url {GRAPH}/sendMail --method POST", NO, MAIL),
]


def test_there_are_ten_files_and_fifty_uses() -> None:
    assert {path.name.partition(".")[0] for path in FOLDER.iterdir()} == {name for name, *_ in USES}
    assert (len(list(FOLDER.iterdir())), len(USES)) == (10, 50)


@pytest.mark.parametrize(("name", "use", "allowed", "sentence"), USES, ids=[f"{row[0]} {row[1]}" for row in USES])
def test_the_sentence_and_the_decision_agree(
    name: str, use: str, allowed: bool, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    explaining = ["caps", "explain", str(FOLDER / f"{name}.capabilities.json")]
    assert sentence in CliRunner().invoke(cli, explaining).stdout
    decided = CliRunner().invoke(cli, [*explaining, *shlex.split(use)])
    assert decided.exit_code == (0 if allowed else 3), decided.output
