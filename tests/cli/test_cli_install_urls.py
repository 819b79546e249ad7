"""Tests of `wasmrt install https://...` against honest and lying servers on loopback."""

from __future__ import annotations

import gzip
import hashlib
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from click.testing import Result
from wasmrt.testing import ReceivedRequest, ScriptedServer, ServerConnection, http_response

from tests.cli.conftest import BUNDLED
from wasmrt.catalog.package import FolderFiles, pack
from wasmrt.catalog.registry import UrlSource

COMPONENT = (BUNDLED / "echo.wasm").read_bytes()
DIGEST = hashlib.sha256(COMPONENT).hexdigest()
REQUEST = json.dumps({"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}}).encode()
Run = Callable[..., Result]


@dataclass
class Site:
    """A server that responds to each request with the next prepared response, and a server that nothing may reach."""

    server: ScriptedServer
    inner: ScriptedServer
    responses: list[bytes]

    def url(self, path: str = "/tools/parrot.wasm", pin: str = "") -> str:
        return f"https://127.0.0.1:{self.server.port}{path}{pin and f'#sha256={pin}'}"


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    authority = trustme.CA()
    tls, inner_tls = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    for context in (tls, inner_tls):
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    (home / "data").mkdir(exist_ok=True)
    (home / "data/config.toml").write_text(
        '[network]\nunsafe_allowed_networks = ["127.0.0.0/8"]\nca_file = "../ca.pem"\n'
    )
    responses: list[bytes] = []

    def respond(_request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = False
        return responses.pop(0) if responses else b""

    with (
        ScriptedServer(respond, tls=tls) as server,
        ScriptedServer(lambda *_: http_response(COMPONENT), tls=inner_tls) as inner,
    ):
        yield Site(server, inner, responses)


def moved_to(location: str) -> bytes:
    return http_response(status=302, headers=(("Location", location),))


def test_a_component_and_its_capability_file_are_installed_from_urls(wasmrt: Run, site: Site) -> None:
    site.responses[:] = [http_response(REQUEST), moved_to("/elsewhere"), http_response(COMPONENT)]
    request = site.url("/parrot.json", hashlib.sha256(REQUEST).hexdigest())
    shown = wasmrt("install", site.url(pin=DIGEST), "--capabilities", request, "--yes")
    assert "may GET https://api.example.com, every path" in shown.stderr
    assert [each.target for each in site.server.requests] == ["/parrot.json", "/tools/parrot.wasm", "/elsewhere"]
    assert all(each.method == "GET" for each in site.server.requests)
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout


def test_no_capability_file_is_guessed_for_a_url(wasmrt: Run, site: Site) -> None:
    site.responses[:] = [http_response(COMPONENT)]
    stored = json.loads(wasmrt("install", site.url("/parrot.wasm?signature=abc"), "--json").stdout)
    assert [each.target for each in site.server.requests] == ["/parrot.wasm?signature=abc"]
    assert stored["sidecar"] is None and stored["origin"] == site.url("/parrot.wasm")


def test_what_was_fetched_names_exactly_this_content() -> None:
    fetched = UrlSource("https://example.com/a/parrot.wasm?x=1", lambda _url, _most: COMPONENT).fetch(max_bytes=1)
    assert (fetched.name, fetched.digest, fetched.bundles) == ("parrot", f"sha256:{DIGEST}", ())
    assert fetched.resolved == f"https://example.com/a/parrot.wasm?x=1#sha256={DIGEST}"


def test_a_package_is_installed_from_the_url_of_its_archive(wasmrt: Run, site: Site, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/kit.wasm").write_bytes(COMPONENT)
    (tmp_path / "kit/wasmrt.toml").write_text('name = "kit"\nversion = "1.0.0"\ncomponent = "kit.wasm"\n')
    name, archive = pack(FolderFiles(tmp_path / "kit"))
    site.responses[:] = [http_response(archive)] * 2
    wasmrt("install", site.url(f"/{name}", hashlib.sha256(archive).hexdigest()))
    assert "kit" in wasmrt("list").stdout
    assert "different digest" in wasmrt("install", site.url(f"/{name}", DIGEST), code=2).stderr


def lies(site: Site) -> dict[str, tuple[list[bytes], str, str]]:
    """Return for each lie the responses, the digest that the URL pins, and the code of the error."""
    whole = http_response(COMPONENT)
    inner = f":{site.inner.port}/tools/parrot.wasm"
    bomb = gzip.compress(bytes(20_000_000))
    coded = (("Content-Encoding", "gzip"),)
    other = http_response(COMPONENT + b"\0")
    cuts = {f"cut after {at} bytes": ([whole[:at]], DIGEST, "*") for at in (0, 1, 20, 60, 1000, len(whole) - 1)}
    return cuts | {
        "other content": ([other], DIGEST, "digest-mismatch"),
        "other content after a redirect": ([moved_to("/b"), other], DIGEST, "digest-mismatch"),
        "the digest of the other content in a header": (
            [http_response(COMPONENT + b"\0", headers=(("Docker-Content-Digest", f"sha256:{DIGEST}"),))],
            DIGEST, "digest-mismatch",
        ),
        "a web page instead of the file": ([http_response(b"<html>")], "", "*"),
        "too long": ([http_response(bytes(3_000_000))], "", "response-too-large"),
        "a length of 10 GB": ([http_response(COMPONENT, length=10_000_000_000)], DIGEST, "response-too-large"),
        "a gzip bomb": ([http_response(bomb, headers=coded)], DIGEST, "response-too-large"),
        "broken gzip": ([http_response(COMPONENT, headers=coded)], DIGEST, "content-coding"),
        "unknown coding": ([http_response(COMPONENT, headers=(("Content-Encoding", "x"),))], DIGEST, "content-coding"),
        "redirect to another port": ([moved_to(f"https://127.0.0.1{inner}")], DIGEST, "*"),
        "redirect to another name": ([moved_to(f"https://localhost{inner}")], DIGEST, "*"),
        "redirect to another loopback address": ([moved_to("https://127.0.0.2/")], DIGEST, "*"),
        "redirect to IPv6 loopback": ([moved_to("https://[::1]/")], DIGEST, "*"),
        "redirect to the cloud's metadata": ([moved_to("https://169.254.169.254/")], DIGEST, "*"),
        "redirect to http": ([moved_to(f"http://127.0.0.1:{site.server.port}/")], DIGEST, "*"),
        "redirect to a file": ([moved_to("file:///etc/passwd")], DIGEST, "*"),
        "redirect with a login": ([moved_to(f"https://a:b@127.0.0.1:{site.server.port}/")], DIGEST, "*"),
        "a loop of redirects": ([moved_to("/tools/parrot.wasm")] * 4, DIGEST, "source"),
        "partial content": ([http_response(COMPONENT, status=206)], DIGEST, "source"),
    }  # fmt: skip


def test_lying_servers_install_nothing_and_reach_no_other_server(wasmrt: Run, site: Site) -> None:
    for name, (responses, pin, code) in lies(site).items():
        site.responses[:] = responses
        shown = wasmrt("install", site.url(pin=pin), "--max-bytes", "2000000", "--yes", "--json", code=2).stderr
        error = json.loads(shown)
        assert code in ("*", error["code"]), f"{name}: {error}"
        assert error["message"] and not site.responses, f"{name}: {error}"
    assert json.loads(wasmrt("list", "--json").stdout) == []
    assert site.inner.connections == 0


def test_urls_that_are_not_plain_are_refused_before_any_request(wasmrt: Run, site: Site) -> None:
    url = site.url()
    cases = {
        url.replace("https", "http"): "must begin with https://",
        url.replace("https", "ftp"): "neither https nor http",
        url.replace("//", "//me:word@"): "user",
        f"{url}#sha256={DIGEST[:-1]}": "64 lower-case",
        f"{url}#sha256={DIGEST.upper()}": "64 lower-case",
        f"{url}#": "64 lower-case",
        f"{url}#md5=0": "64 lower-case",
        site.url("/parrot.exe"): "must end in .wasm",
        site.url("/a/../parrot.wasm"): "dot segment",
    }
    for case, words in cases.items():
        assert words in wasmrt("install", case, "--yes", code=2).stderr, case
    assert "needs a local capability file" in wasmrt("install", "x.wasm", "--capabilities", url, code=2).stderr
    assert site.server.connections == 0


def test_hosts_that_the_operator_did_not_list_are_never_contacted(wasmrt: Run, site: Site, home: Path) -> None:
    with (home / "data/config.toml").open("a") as file:
        file.write('[install]\nhosts = ["files.example.com"]\n')
    url, other = site.url(), "https://files.example.com/parrot.wasm"
    for arguments in ((url,), ("oci" + url[5:],), (other, "--capabilities", url), (other, "--signature", url)):
        error = json.loads(wasmrt("install", *arguments, "--yes", "--json", code=2).stderr)
        assert error["code"] == "policy", arguments
    assert site.server.connections == 0


def test_redirects_lead_only_to_hosts_that_the_operator_listed(wasmrt: Run, site: Site, home: Path) -> None:
    with (home / "data/config.toml").open("a") as file:
        file.write(f'[install]\nhosts = ["127.0.0.1:{site.server.port}"]\n')
    site.responses[:] = [moved_to("https://files.example.com/parrot.wasm")]
    assert json.loads(wasmrt("install", site.url(), "--json", code=2).stderr)["code"] == "policy"
    site.responses[:] = [moved_to("/b"), http_response(COMPONENT)]
    wasmrt("install", site.url())
