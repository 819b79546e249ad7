"""Take screenshots of the approvals page with prepared requests; it needs Chromium.

python -m docs.approvals_page           # the pictures in docs: the first screen on a phone and on a desktop
python -m docs.approvals_page FOLDER    # every page at both sizes, light and dark
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.interop.pages.access import asking
from tests.interop.pages.browser import CHROMIUM, Tab, browsing
from tests.interop.pages.prepared import harmful, harmless
from tests.interop.pages.site import site as served_site
from wasmrt.agent.flows import FlowMap, Reach

SIZES = {"phone": (390, 844), "desktop": (1280, 800)}
SCHEMES = ("light", "dark")
FLOWS = FlowMap(
    (
        Reach("notes", private="reads files"),
        Reach("web_fetch", untrusted="from the network", sends="can send requests, whose paths carry data"),
        Reach("send_mail", sends="can change something outside", asks=True),
    )
)


def main(folder: Path | None) -> None:
    with (
        tempfile.TemporaryDirectory() as data,
        served_site(Path(data), flows=lambda: FLOWS) as site,
        browsing(Path(data) / "browser") as browser,
    ):
        good, bad = harmless(), harmful()
        for asked in (*good, *bad):
            site.store.add(asked)
        asking(site)
        tab = browser.tab()
        tab.goto(site.origin + site.link())
        tab.settled("/")
        root = tab.run("location.href")
        if folder is None:
            _take_for_docs(tab, root, f"requests/{good[0].id}")
            return
        folder.mkdir(parents=True, exist_ok=True)
        pages = {"inbox": "", "request": f"requests/{good[0].id}", "steered": f"requests/{bad[0].id}"}
        pages |= {"hostile": f"requests/{bad[5].id}", "diff": f"requests/{good[3].id}"}
        pages |= {name: name for name in ("remembered", "receipts", "grants", "flows")}
        for name, path in pages.items():
            tab.goto(root + path)
            _take(tab, folder, name)


def _take_for_docs(tab: Tab, root: str, request: str) -> None:
    for name, path in (("phone", ""), ("desktop", request)):
        width, height = SIZES[name]
        tab.goto(root + path)
        picture = Path(__file__).with_name(f"approvals-{name}.png")
        tab.screenshot(picture, width=width, height=height, whole=False)


def _take(tab: Tab, folder: Path, name: str) -> None:
    for size, (width, height) in SIZES.items():
        for scheme in SCHEMES:
            tab.screenshot(folder / f"{name}-{size}-{scheme}.png", scheme=scheme, width=width, height=height)


if __name__ == "__main__":
    if CHROMIUM is None or len(sys.argv) > 2:
        sys.exit("usage: python -m docs.approvals_page [FOLDER] (it needs Chromium)")
    main(Path(sys.argv[1]) if len(sys.argv) == 2 else None)
