"""The pages on a real server, and a client that behaves like a browser: it keeps a cookie and submits forms."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.interop.web.served import Served, served
from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import ApprovalStore
from wasmrt.interop.pages import OperatorPages, PageSources


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    def field(self, name: str) -> str:
        """Return the value of the first hidden field with a name."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found is not None, f"no field {name}"
        return unescape(found[1])


@dataclass
class Site:
    server: Served
    pages: OperatorPages
    store: ApprovalStore
    data: Path
    access: AccessStore

    @property
    def origin(self) -> str:
        return f"http://{self.server.host}"

    def link(self) -> str:
        return self.pages.link(self.origin).removeprefix(self.origin)

    def send(self, method: str, target: str, body: str | None = None, **headers: str) -> Answer:
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        client.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def person(self) -> Person:
        """Return a client that opened a link."""
        answer = self.send("GET", self.link())
        assert answer.status == 200, answer.text
        cookie, _, rest = answer.headers["set-cookie"].partition(";")
        found = re.search(r"Path=(\S+);", rest)
        assert found is not None
        return Person(self, found[1], cookie)


@dataclass
class Person:
    site: Site
    root: str
    cookie: str
    token: str = field(default="")

    def get(self, path: str = "") -> Answer:
        answer = self.site.send("GET", self.root + path, cookie=self.cookie)
        if 'name="form_token"' in answer.text:
            self.token = answer.field("form_token")
        return answer

    def post(self, path: str, **fields: str) -> Answer:
        """Submit a form as a page of this session would."""
        if not self.token:
            self.get()
        body = urlencode({"form_token": self.token, "user": "alice"} | fields)
        kind = "application/x-www-form-urlencoded"
        origin = self.site.origin
        return self.site.send("POST", self.root + path, body, cookie=self.cookie, content_type=kind, origin=origin)


@contextmanager
def site(folder: Path, *, base: str = "/", **more: Any) -> Iterator[Site]:
    """Serve the pages of an installation in a folder; `more` are additional sources."""
    store = ApprovalStore(folder / "approvals.sqlite3")
    sources = PageSources(store, folder / "receipts", folder / "receipts.key", folder, **more)
    pages = OperatorPages(sources, by="ann", command="wasmrt approvals --web", base=base)
    with served(pages) as server:
        yield Site(server, pages, store, folder, AccessStore(folder / "access.sqlite3"))
    store.close()
