"""The address of a request, as passed to clients: it names the request, and opens nothing without a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.approvals.requests import request
from tests.interop.pages.site import Site
from wasmrt.agent.approvals import State
from wasmrt.interop.pages import announce_address, announced_address


def test_the_page_of_an_address_reveals_nothing_about_the_request(site: Site) -> None:
    asked = request()
    site.store.add(asked)
    there = site.send("GET", f"/ask/{asked.id}")
    assert there.status == 200 and asked.tool not in there.text and "set-cookie" not in there.headers
    nowhere = site.send("GET", "/ask/22222-22222")
    assert nowhere.text.replace("22222-22222", asked.id) == there.text, (
        "the page must not show whether the request exists"
    )
    assert "form" not in there.text.partition("<main")[2]


def test_a_request_page_without_a_session_accepts_no_answers(site: Site) -> None:
    asked = request()
    site.store.add(asked)
    body = f"answer=once&user={asked.user}&form_token=x"
    headers = {"origin": site.origin, "content_type": "application/x-www-form-urlencoded"}
    assert site.send("POST", f"/ask/{asked.id}", body, **headers).status == 403
    found = site.store.get(asked.id)
    assert found is not None and found.state is State.PENDING


@pytest.mark.parametrize("name", ["", "x", "../state", "22222-22222/", "22222-2222%32", "<script>", "a" * 5000])
def test_an_address_without_a_request_is_not_found(site: Site, name: str) -> None:
    found = site.send("GET", f"/ask/{name}")
    assert found.status == 404 and "script>" not in found.text.partition("<main")[2]


def test_the_address_is_announced_while_pages_are_served(tmp_path: Path) -> None:
    file = tmp_path / "data" / "pages.address"
    assert announced_address(file) is None
    with announce_address(file, "http://127.0.0.1:8931/") as own:
        assert own and announced_address(file) == "http://127.0.0.1:8931/"
        assert file.stat().st_mode & 0o077 == 0
        with announce_address(file, "http://127.0.0.1:1/") as second:
            assert not second and announced_address(file) == "http://127.0.0.1:8931/"
    assert announced_address(file) is None
    file.write_text("http://127.0.0.1:1/")
    assert announced_address(file) is None, "whoever wrote it serves nothing any more"


def test_the_address_of_a_killed_process_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "pages.address"
    code = (
        "import sys, pathlib; from wasmrt.interop.pages import announce_address\n"
        "with announce_address(pathlib.Path(sys.argv[1]), 'http://127.0.0.1:1/'): print('there', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"there\n"
        assert announced_address(file) == "http://127.0.0.1:1/"
        process.kill()
        process.wait(20)
    assert file.read_bytes() and announced_address(file) is None


def test_an_address_file_that_is_a_link_or_writable_by_others_is_ignored(tmp_path: Path) -> None:
    file, link = tmp_path / "pages.address", tmp_path / "link"
    link.symlink_to(file)
    with announce_address(file, "http://127.0.0.1:1/"):
        assert announced_address(link) is None
        os.chmod(file, 0o666)
        assert announced_address(file) is None
        os.chmod(file, 0o600)
        file.write_bytes(b"\xff\xfe")
        assert announced_address(file) is None
        file.write_bytes(b"x" * 600)
        assert announced_address(file) is None
