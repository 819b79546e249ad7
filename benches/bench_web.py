"""Pages to Markdown: html_to_markdown in its sandbox compared with trafilatura and markdownify, quality and speed.

Run: python benches/bench_web.py [ROUNDS]

Quality is the F1 score of fragments on the pages of tests/agent/first_party: each page has fragments of its article,
and others (menus, banners, footers) that do not belong to it. Words are compared in order, without Markdown syntax.
Recall is the share of article fragments in the result; precision is the share of article fragments among all fragments
in the result. The pages are test cases of html_to_markdown, so its lead here says little about other pages.
markdownify does not extract articles; it is compared for its speed and recall.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from wasmrt import WasmRuntimeConfig, WasmToolRuntime

PAGES = Path(__file__).resolve().parents[1] / "tests/agent/first_party/pages"
URL = "https://example.com/docs/page.html"
OTHERS = ("trafilatura", "markdownify")
Convert = Callable[[str], str]


class Page(NamedTuple):
    html: str
    wanted: list[str]
    unwanted: list[str]


class Quality(NamedTuple):
    recall: float
    precision: float

    @property
    def f1(self) -> float:
        return 2 * self.recall * self.precision / ((self.recall + self.precision) or 1)


def words(text: str) -> str:
    """Return the words of a text in order, without the addresses of links and images."""
    text = re.sub(r"\]\([^)]*\)", " ", text)
    return " ".join(re.findall(r"\w+", text.casefold()))


def pages() -> list[Page]:
    found = []
    for path in sorted(PAGES.glob("*.html")):
        told = json.loads(path.with_suffix(".json").read_text())
        wanted, unwanted = ([each for each in map(words, told[key]) if each] for key in ("has", "has_not"))
        found.append(Page(path.read_text(), wanted, unwanted))
    return found


def quality(convert: Convert, every: list[Page]) -> Quality:
    kept = wrong = total = 0
    for page in every:
        text = f" {words(convert(page.html))} "
        kept += sum(f" {each} " in text for each in page.wanted)
        wrong += sum(f" {each} " in text for each in page.unwanted)
        total += len(page.wanted)
    return Quality(kept / total, kept / ((kept + wrong) or 1))


def milliseconds(ways: dict[str, Convert], every: list[Page], rounds: int) -> dict[str, float]:
    """Return the median time per page of each converter; the converters take turns in every round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for page in every:
            for name, convert in ways.items():
                start = time.perf_counter()
                convert(page.html)
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) * 1000 for name, found in times.items()}


def main(rounds: int) -> None:
    every = pages()
    with WasmToolRuntime(WasmRuntimeConfig()) as runtime:
        tool = runtime.prepare_installed("html_to_markdown")

        def ours(html: str) -> str:
            return str(tool.execute({"html": html, "url": URL}).result["markdown"])

        ways: dict[str, Convert] = {"html_to_markdown": ours}
        if find_spec("trafilatura") is not None:
            import trafilatura

            ways["trafilatura"] = lambda html: (
                trafilatura.extract(html, url=URL, output_format="markdown", include_links=True, include_tables=True)
                or ""
            )
        if find_spec("markdownify") is not None:
            import markdownify

            ways["markdownify"] = lambda html: str(markdownify.markdownify(html))
        for name in OTHERS:
            if name not in ways:
                print(f"{name} is not installed: skipped")
        print(f"{len(every)} pages, {sum(len(p.html) for p in every) / 1024:.0f} KiB; F1 of fragments")
        for name, convert in ways.items():
            found = quality(convert, every)
            print(f"  {name:<17} F1 {found.f1:.3f}  recall {found.recall:.3f}  precision {found.precision:.3f}")
        times = milliseconds(ways, every, rounds)
        for name, median in times.items():
            print(f"  {name:<17} {median:6.2f} ms a page, {median / times['html_to_markdown']:.2f}x html_to_markdown")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
