"""The confined program of the browser: Playwright and Chromium without network access.

This file runs as a separate program that does not import wasmrt. The program writes each request of the page as a line
to standard output, and reads the answer as a line from standard input. Its last line is the loaded page, or an error.
"""

from __future__ import annotations

import base64
import json
import sys
from contextlib import suppress
from typing import Any

_FLAGS = (
    # SECURITY: Chromium cannot create namespaces here. The confinement of this process replaces Chromium's sandbox.
    *("--no-sandbox", "--no-zygote", "--disable-dev-shm-usage", "--in-process-gpu", "--disable-breakpad"),
    *("--disable-crash-reporter", "--disable-crashpad-for-testing", "--disable-remote-fonts"),
)
_MAX_MOVES = 5


class _Page:
    """One page and its requests."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.moved = ""
        self.status = 0
        self.page: Any = None

    def route(self, route: Any) -> None:
        """Ask the host about one request of the page, and answer the request accordingly."""
        request, frame = route.request, _get_frame(route.request)
        is_window = frame is None or frame.page != self.page
        top = not is_window and request.is_navigation_request() and frame.parent_frame is None
        _send({"request": request.url, "method": request.method, "top": top, "window": is_window})
        answer = json.loads(sys.stdin.readline())
        if is_window:
            with suppress(Exception):  # the window may have been closed
                route.abort("blockedbyclient")
            return
        if top:
            self.moved, self.status = answer.get("moved", ""), answer.get("status", 0)
        if self.moved:
            route.fulfill(status=204)  # the loaded page stays, and no error page replaces it
            return
        if "body" not in answer:
            route.abort("blockedbyclient")
            return
        body = base64.b64decode(answer["body"])
        route.fulfill(status=answer["status"], headers=dict(answer["headers"]), body=body)

    def open(self, page: Any) -> dict[str, Any]:
        """Open the page, and return its title, text and URL."""
        url = self.asked["url"]
        for _ in range(_MAX_MOVES):
            self.moved = ""
            try:
                page.goto(url, wait_until="load", timeout=self.asked["seconds"] * 1000)
            except Exception:
                if not self.moved:
                    raise
            if not self.moved:
                break
            url = self.moved
        most = self.asked["max_chars"]
        found = page.evaluate(
            "most => { const text = document.body ? document.body.innerText : '';"
            " return [document.title.slice(0, 500), text.slice(0, most), text.length, location.href] }",
            most,
        )
        return {"title": found[0], "text": found[1], "chars": found[2], "url": found[3], "status": self.status}


def _get_frame(request: Any) -> Any:
    """Return the frame of a request, or None if its window is still being opened."""
    try:
        return request.frame
    except Exception:
        return None


def main() -> None:
    """Open one page."""
    from playwright.sync_api import sync_playwright

    asked = json.loads(sys.stdin.readline())
    opened = _Page(asked)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=asked["browser"], headless=True, args=list(_FLAGS), env=asked["env"], chromium_sandbox=False
        )
        context = browser.new_context(accept_downloads=False, service_workers="block", locale="en-US")
        context.route("**/*", opened.route)
        context.route_web_socket("**/*", lambda socket: socket.close())
        page = opened.page = context.new_page()
        page.on("popup", lambda other: other.close())
        page.on("dialog", lambda dialog: dialog.dismiss())
        try:
            _send({"page": opened.open(page)})
        except Exception as error:
            _send({"failed": str(error).partition("\n")[0][:300]})
        browser.close()


def _send(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
