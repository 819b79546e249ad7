"""Open a page in a real browser without network access. Each request of the page goes to the gateway or is refused.

SECURITY: Chromium runs confined, without sockets, the user's files or environment variables. Chromium resolves no names
and opens no connections. Therefore no redirect, DNS rebinding, WebSocket or browser bug can reach a host that the
gateway refuses.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from wasmrt.agent.builtin.desktop._conversation import Conversation, start_conversation
from wasmrt.agent.builtin.desktop._programs import PATH, no_desktop_error, refusal_error
from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability, RateLimitConfig
from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import GIB, MAX_PAGE_BYTES, MAX_PAGE_PART_BYTES, MAX_PAGE_REQUESTS, PAGE_SECONDS
from wasmrt.core.model import Decision
from wasmrt.core.setting_commands import set_command
from wasmrt.core.url import InvalidUrlError, parse_url
from wasmrt.egress.gateway import EgressGateway, Face, HostCall, HttpFailure, HttpRequest, read_host
from wasmrt.egress.leaks import LeakDetector, WatchedSecrets
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.isolation.confine import NOT_EXECUTED, SHELL, Command, confined_command
from wasmrt.sandbox.isolation.programs import not_started, starting

_PAGE = Path(__file__).with_name("_page.py")
_NAMES = ("chromium-headless-shell", "headless_shell", "chrome-headless-shell")
_CACHED = "ms-playwright/chromium_headless_shell-*/*/*headless*shell"
_FONTS = ("/etc/fonts", "/var/cache/fontconfig", "/etc/chromium.d", "/usr/share/fonts")
_REDIRECTS = (301, 302, 303, 307, 308)
_HIDDEN_HEADERS = ("alt-svc", "link", "refresh", "location")
"""Response headers with addresses that the browser could connect to or preload."""
_MAX_REDIRECTS = 5
_MAX_REFUSED = 20
_GET = ("GET",)
_RATE = RateLimitConfig(requests_per_minute=5 * MAX_PAGE_REQUESTS, requests_per_hour=50 * MAX_PAGE_REQUESTS)
"""Rate limit for the requests of a page. The registry separately limits the rate of calls."""


class Refused(NamedTuple):
    """A request of a page that was refused."""

    url: str
    why: str


class BrowserExitedError(ToolError):
    """The browser exited before the page was loaded."""


class PageTraffic:
    """Sends the requests of one page, within the gateway's checks and the limits for a page."""

    def __init__(self, gateway: EgressGateway, hosts: tuple[str, ...], url: str, context: ToolContext) -> None:
        self._gateway = gateway
        self._call = HostCall("browser.open_url", context.user, page_grant(hosts), None, WatchedSecrets(LeakDetector()))
        self._call.on_decision = self._record_decision
        self._site = _get_site(url)
        self._requests = self._bytes = 0
        self._last: Decision | None = None
        self.refused: list[Refused] = []
        self.moved_to: str | None = None
        self.denied: Decision | None = None
        """The decision that refused the page itself, if the gateway refused it."""

    def within(self, lifetime: Lifetime) -> PageTraffic:
        """End every request when the lifetime of a call ends."""
        self._call.deadline, self._call.cancelled = lifetime.deadline, lifetime.cancelled
        return self

    @property
    def has_requests(self) -> bool:
        """True after the page has made its first request."""
        return bool(self._requests or self.refused)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer one request: with a response, a redirect of the page, or an empty object if the request is refused."""
        url, method, top = str(asked.get("request", "")), str(asked.get("method", "")), asked.get("top") is True
        if asked.get("window") is True:
            return self._refuse_request(url, "pages cannot open windows")
        try:
            return self._answer(url, method, top=top)
        except HttpFailure as failure:
            self._refuse_request(url, failure.message)
            if top:
                self.denied = self._last
            return {}

    def _answer(self, url: str, method: str, *, top: bool) -> dict[str, Any]:
        if method != "GET":
            return self._refuse_request(url, f"pages can only send GET requests, not {method}")
        if top and _get_site(url) != self._site:
            return self._refuse_move(url)
        for _ in range(_MAX_REDIRECTS + 1):
            self._requests += 1
            if self._requests > MAX_PAGE_REQUESTS:
                return self._refuse_request(url, f"more than {MAX_PAGE_REQUESTS} requests")
            # SECURITY: a model wrote the URL. The interface for guests scans for secrets and removes cookies.
            with self._gateway.open(self._call, HttpRequest("GET", url), face=Face.GUEST) as response:
                location = {name.lower(): value for name, value in response.headers}.get("location")
                if response.status in _REDIRECTS and location:
                    url = urljoin(url, location)
                    if not top:
                        continue
                    if _get_site(url) != self._site:
                        return self._refuse_move(url)
                    return {"moved": url, "status": response.status}
                body = response.read_all()
                self._bytes += len(body)
                if self._bytes > MAX_PAGE_BYTES:
                    return self._refuse_request(url, f"more than {MAX_PAGE_BYTES:,} bytes in total")
                headers = [(name, value) for name, value in response.headers if name.lower() not in _HIDDEN_HEADERS]
                return {"status": response.status, "headers": headers, "body": base64.b64encode(body).decode()}
        return self._refuse_request(url, f"more than {_MAX_REDIRECTS} redirects")

    def _refuse_request(self, url: str, why: str) -> dict[str, Any]:
        if len(self.refused) < _MAX_REFUSED:
            self.refused.append(Refused(url[:500], why))
        return {}

    def _refuse_move(self, url: str) -> dict[str, Any]:
        self.moved_to = self.moved_to or url
        return self._refuse_request(url, "the page redirects to a different site")

    def _record_decision(self, decision: Decision) -> None:
        self._last = decision


def page_grant(hosts: tuple[str, ...]) -> Capabilities:
    """Create the grant of a page: GET requests to the operator's hosts, or to all public hosts by default."""
    allowed = tuple(map(read_host, hosts)) or (EndpointPattern.any_public_host().with_methods(*_GET),)
    http = HttpCapability(
        allowlist=allowed, max_response_bytes=MAX_PAGE_PART_BYTES, timeout_seconds=PAGE_SECONDS, rate_limit=_RATE
    )
    return Capabilities.none().with_http(http)


def find_browser(named: Path | None) -> Path:
    """Return the path of the browser.

    Raises:
        ToolError: Playwright is not installed, or there is no headless Chromium.
    """
    if find_spec("playwright") is None:
        raise no_desktop_error("the browser needs Playwright", 'pip install "wasmrt[browser]"')
    if named is not None:
        if not named.is_file():
            raise no_desktop_error(
                f"there is no browser at {named}", f"correct it: {set_command('desktop.browser', 'PATH')}"
            )
        real = named.resolve()
        # SECURITY: the browser can read the folder of its executable.
        if Path.home().resolve().is_relative_to(real.parent):
            raise no_desktop_error("the browser's folder contains the user's home", "move it to a separate folder")
        return real
    for name in _NAMES:
        if (found := shutil.which(name, path=PATH)) is not None:
            return Path(found).resolve()
    for path in sorted((Path.home() / ".cache").glob(_CACHED), reverse=True):
        return path.resolve()
    raise no_desktop_error(
        "there is no headless Chromium on this machine",
        "install chromium-headless-shell, or: playwright install --only-shell chromium",
    )


def open_page(
    url: str, max_chars: int, context: ToolContext, *, browser: Path, hosts: tuple[str, ...],
    gateway: Callable[[], EgressGateway],
) -> dict[str, Any]:  # fmt: skip
    """Open a page, run its scripts, and return its text.

    Raises:
        NotAuthorizedError: the page is not allowed.
        ToolError: the page could not be opened, or this machine cannot confine the browser.
    """
    lifetime = Lifetime(PAGE_SECONDS, within=context.lifetime)
    if context.on_progress is not None:
        context.on_progress(0, None, "starting the browser")
    with (
        tempfile.TemporaryDirectory(prefix="wasmrt-page-", ignore_cleanup_errors=True) as home,
        gateway() as open_gateway,
    ):
        traffic = PageTraffic(open_gateway, hosts, url, context).within(lifetime)
        env = {"HOME": home, "TMPDIR": home, "PATH": PATH, "LANG": "C.UTF-8"}
        asked = {"url": url, "browser": str(browser), "env": env, "max_chars": max_chars}

        def browse() -> dict[str, Any]:
            with (
                starting("the browser"),
                start_conversation(_make_command(browser, home, env), home, lifetime) as browsing,
            ):
                browsing.send(asked | {"seconds": lifetime.remaining() * 0.9})
                return _serve_page(browsing, traffic)

        try:
            found = browse()
        except BrowserExitedError:  # Chromium sometimes fails to start on a busy machine
            if traffic.has_requests:
                raise
            found = browse()
        return _read_result(found, traffic, url, max_chars)


def _make_command(browser: Path, home: str, env: dict[str, str]) -> Command:
    import playwright

    own = [sys.prefix, sys.base_prefix, str(Path(playwright.__file__).resolve().parent.parent)]
    return confined_command(
        SHELL, [sys.executable, "-I", str(_PAGE)], env=env,
        read=[str(_PAGE.parent), *(each for each in _FONTS if Path(each).exists())], write=[home],
        execute=[*own, str(browser.parent)], data_bytes=8 * GIB,
    )  # fmt: skip


def _serve_page(browsing: Conversation, traffic: PageTraffic) -> dict[str, Any]:
    """Answer the requests of the page until the page is loaded. Return the browser's last line.

    Raises:
        BrowserExitedError: the browser exited without a last line.
    """
    while (line := browsing.receive()) is not None:
        if "request" in line:
            browsing.send(traffic.answer(line))
        elif "page" in line or "failed" in line:
            return line
    if (failure := not_started("the browser", NOT_EXECUTED, browsing.stderr)) is not None:
        raise failure
    last = printable_line(browsing.stderr.strip().rpartition("\n")[2])[:300]
    problem = "the browser exited before the page was loaded" + (f": {last}" if last else "")
    raise BrowserExitedError(problem, code="browser", hint="try again")


def _read_result(line: dict[str, Any], traffic: PageTraffic, url: str, max_chars: int) -> dict[str, Any]:
    if traffic.moved_to is not None and "page" not in line:
        return {"url": url, "moved_to": traffic.moved_to, "title": "", "text": "", "truncated": False, "refused": []}
    if "page" not in line:
        if traffic.denied is not None and not traffic.denied.allowed:
            raise refusal_error(traffic.denied)
        why = traffic.refused[0].why if traffic.refused else str(line.get("failed", ""))[:300]
        raise ToolError(f"the page was not opened: {why}", code="page", hint="check the address")
    page = line["page"] if isinstance(line["page"], dict) else {}
    text, chars, status = str(page.get("text", ""))[:max_chars], page.get("chars"), page.get("status")
    return {
        "url": str(page.get("url", url))[:2048],
        "status": status if isinstance(status, int) else 0,
        "title": str(page.get("title", ""))[:500],
        "text": text,
        "truncated": isinstance(chars, int) and chars > len(text),
        "refused": [each._asdict() for each in traffic.refused],
        **({} if traffic.moved_to is None else {"moved_to": traffic.moved_to}),
    }


def _get_site(url: str) -> str:
    """Return the host of a page without `www.`, or an empty string if it is not a web URL."""
    try:
        return parse_url(url).host.removeprefix("www.")
    except InvalidUrlError:
        return ""
