"""A headless Chromium, driven by the DevTools protocol over a pipe, without a library or port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
_FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--no-default-browser-check", "--disable-dev-shm-usage", "--hide-scrollbars", "--password-store=basic"),
    # Allow requests to loopback only.
    *("--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",),
)


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.ask(method, params, self._session)

    def said(self) -> list[str]:
        """Return the page's console output, script errors, and policy violations."""
        return self._browser.said(self._session)

    def goto(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.settled()

    def settled(self, url_part: str = "") -> None:
        """Wait until a page whose address holds `url_part` has been loaded."""
        for _ in range(2000):
            try:
                found = self.run(
                    "[document.readyState, location.href, !!document.querySelector('meta[http-equiv=refresh]')]"
                )
            except LookupError:  # between two pages
                continue
            if found[0] == "complete" and not found[2] and found[1] != "about:blank" and url_part in found[1]:
                return
        raise AssertionError(f"no page with {url_part!r}: {found}")

    def run(self, script: str) -> Any:
        """Return what a script in the page evaluates to; promises are awaited."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise LookupError(found["exceptionDetails"].get("exception", {}).get("description", "failed"))
        return found["result"].get("value")

    def text(self) -> str:
        return str(self.run("document.body ? document.body.innerText : ''"))

    def follow(self, script: str) -> None:
        """Run a script that navigates to another page, and wait for that page."""
        self.run("window.before = true")
        self.run(script)
        for _ in range(2000):
            try:
                if self.run("!window.before && document.readyState === 'complete'"):
                    return
            except LookupError:
                continue
        raise AssertionError("there came no other page")

    def press(self, key: str, *, text: str = "") -> None:
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        about: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(
        self, path: Path, *, scheme: str = "light", width: int = 1100, height: int = 900, whole: bool = True
    ) -> None:
        """Write a picture of the whole page, or only of the first screen."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def tree(self) -> list[dict[str, Any]]:
        """Return the accessibility tree as screen readers get it, without ignored nodes."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]


class Browser:
    """A browser, and the test's end of the pipe."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._last, self._ahead = to, back, 0, b""
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._last:
                if "error" in found:
                    raise LookupError(found["error"]["message"])
                return dict(found["result"])
            self.events.append(found)

    def tab(self) -> Tab:
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.ask(f"{domain}.enable")
        return tab

    def said(self, session: str) -> list[str]:
        texts = []
        for event in self.events:
            if event.get("sessionId") != session:  # an earlier test's page may still request its server
                continue
            params = event.get("params", {})
            if event.get("method") == "Log.entryAdded":
                texts.append(params["entry"]["text"])
            elif event.get("method") == "Runtime.exceptionThrown":
                texts.append(params["exceptionDetails"]["text"])
            elif event.get("method") == "Page.javascriptDialogOpening":
                texts.append(f"dialog: {params['message']}")
        return texts

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._ahead:
            data = os.read(self._back, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._ahead += data
        line, _, self._ahead = self._ahead.partition(b"\0")
        return dict(json.loads(line))


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """Run a browser with its profile in `folder`, and end all its processes afterwards."""
    assert CHROMIUM is not None
    theirs, to = os.pipe()
    back, ours = os.pipe()

    def connect() -> None:  # the protocol uses descriptors 3 and 4
        first, second = os.dup(theirs), os.dup(ours)
        os.dup2(first, 3)
        os.dup2(second, 4)

    # As root, Chromium runs only without its sandbox; it shows only pages of these tests.
    flags = (*_FLAGS, f"--user-data-dir={folder}", *(("--no-sandbox",) if os.geteuid() == 0 else ()))
    process = subprocess.Popen(
        [CHROMIUM, *flags], preexec_fn=connect, close_fds=False, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"},
    )  # fmt: skip
    os.close(theirs)
    os.close(ours)
    try:
        yield Browser(to, back)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(to)
        os.close(back)
