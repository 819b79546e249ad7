"""Tests of `wasmrt approvals --web`."""

from __future__ import annotations

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import Result

from tests.agent.approvals.requests import request
from wasmrt.agent.approvals import ApprovalStore

Run = Callable[..., Result]


@contextmanager
def serving(home: Path, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "wasmrt", "approvals", "--web", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"WASMRT_HOME": str(home)} | environment,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def opened(link: str) -> tuple[int, str]:
    """Open a link and follow redirects like a browser; return the status and the page."""
    parts = urlsplit(link)
    client = http.client.HTTPConnection(parts.netloc, timeout=20)
    client.request("GET", f"{parts.path}?{parts.query}")
    first = client.getresponse()
    first.read()
    cookie, _, rest = first.headers["Set-Cookie"].partition(";")
    client.request("GET", rest.partition("Path=")[2].partition(";")[0], headers={"Cookie": cookie})
    page = client.getresponse()
    found = page.status, page.read().decode()
    client.close()
    return found


@pytest.mark.ci("slow")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_it_is_ended(home: Path, ended_by: signal.Signals) -> None:
    asked = request(user="local")
    ApprovalStore(home / "data" / "approvals.sqlite3").add(asked)
    with serving(home) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        status, page = opened(link)
        assert (status, asked.id in page) == (200, True)
        process.send_signal(ended_by)
        _, said = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "works once" in said
        assert "Traceback" not in said


def test_json_output_contains_the_link(home: Path) -> None:
    with serving(home, "--json", "--host", "localhost") as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline()
        found = json.loads(text)
        assert found["url"].startswith("http://127.0.0.1:")
        assert found["link"].startswith(found["url"] + "/?token=")


def test_browser_command_line_does_not_contain_the_link(home: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(
        "#!/bin/sh\n"
        'file="${1#file://}"\n'
        f'{{ echo "$1"; stat -c %a "$file"; cat "$file"; }} > "{seen}.new"\n'
        f'mv "{seen}.new" "{seen}"\n'
    )
    browser.chmod(stat.S_IRWXU)
    with serving(home, "--open", BROWSER=str(browser), TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        while not seen.exists():
            assert process.poll() is None
        argument, mode, content = seen.read_text().split("\n", 2)
        assert "token" not in argument
        assert mode == "600"
        link = content.partition("url=")[2].partition('"')[0]
        assert link != printed
        assert opened(link)[0] == 200
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert not Path(argument.removeprefix("file://")).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--web", "list"), "cannot be combined"),
        (("--port", "1", "list"), "cannot be combined"),
        (("--open",), "require --web"),
        (("--json",), "require --web"),
        (("--web", "--host", "0.0.0.0"), "can be reached by other machines"),
        (("--web", "--host", "example.com"), "is not an IP address"),
        (("--web", "--port", "70000"), "70000"),
        (("--web", "--origin", "example.com"), "is not an origin"),
        (("--web", "--host", "::", "--unsafe-beyond-loopback"), "needs the origin"),
    ],
)
def test_invalid_option_is_reported_with_a_hint(wasmrt: Run, home: Path, arguments: tuple[str, ...], said: str) -> None:
    result = wasmrt("approvals", *arguments, code=2)
    assert said in result.stderr
    assert "hint" in result.stderr


def test_missing_subcommand_shows_the_help(wasmrt: Run) -> None:
    assert "--web" in wasmrt("approvals", code=2).stderr
