"""Articles of Mozilla's test pages: html_to_markdown next to readability.js and trafilatura, in one run.

Run: python -m benches.bench_readability PAGES NODE
PAGES is test/test-pages of github.com/mozilla/readability; NODE is a folder in which `npm install @mozilla/readability
jsdom` has run. Needs trafilatura (the bench group).

The expected articles are readability.js's own, and html_to_markdown is based on a port of it: the figures favour both.
Times are processor time.
"""

from __future__ import annotations

import base64
import html as entities
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import trafilatura
from wasmrt.testing import http_response

from tests.agent.first_party.web import Web, serve_web
from wasmrt import PreparedTool, ToolError, WasmRuntimeConfig, WasmToolRuntime

_DAMAGED = 200
_URL = "https://example.com/a/page.html"
_SENTENCES = {
    "de": "Grüße aus Köln: über Äpfel, Öl und süße Früchte schreiben wir täglich.",
    "fr": "L'été, les élèves français mangent des crêpes à la crème, où qu'ils soient.",
    "pl": "Zażółć gęślą jaźń, bo w Łodzi śnieg leży już od początku października.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy každý večer před naším domem.",
    "ru": "Каждое утро жители города читают новости и обсуждают погоду на завтра.",
    "el": "Κάθε πρωί οι κάτοικοι της πόλης διαβάζουν τα νέα και μιλούν για τον καιρό.",
    "tr": "Şehirdeki çocuklar her gün öğleden sonra ılık bir çay içip ağaçlara çıkıyor.",
    "he": "בכל בוקר תושבי העיר קוראים את החדשות ומדברים על מזג האוויר של מחר.",
    "ar": "كل صباح يقرأ سكان المدينة الأخبار ويتحدثون عن طقس الغد في الأسواق.",
    "th": "ทุกเช้าชาวเมืองอ่านข่าวและพูดคุยเกี่ยวกับสภาพอากาศของวันพรุ่งนี้",
    "ja": "毎朝、町の人々は新聞を読み、明日の天気について話し合っています。",
    "zh": "每天早上，城里的居民都会阅读新闻，并讨论明天的天气情况。",
    "zh-tw": "每天早上，城裡的居民都會閱讀新聞，並討論明天的天氣情況。",
    "ko": "매일 아침 도시 주민들은 뉴스를 읽고 내일의 날씨에 대해 이야기합니다.",
}
CHARSETS = (
    ("utf-8", "de"), ("windows-1252", "de"), ("iso-8859-1", "fr"), ("iso-8859-15", "fr"), ("iso-8859-2", "pl"),
    ("windows-1250", "pl"), ("iso-8859-2", "cs"), ("windows-1250", "cs"), ("windows-1251", "ru"), ("koi8-r", "ru"),
    ("iso-8859-5", "ru"), ("windows-1253", "el"), ("iso-8859-7", "el"), ("windows-1254", "tr"), ("iso-8859-9", "tr"),
    ("windows-1255", "he"), ("windows-1256", "ar"), ("windows-874", "th"), ("shift_jis", "ja"), ("euc-jp", "ja"),
    ("iso-2022-jp", "ja"), ("gb18030", "zh"), ("big5", "zh-tw"), ("euc-kr", "ko"),
)  # fmt: skip


class Answer(NamedTuple):
    """The text of an article, None after a failure, and the processor time."""

    text: str | None
    ms: float


def words(text: str) -> Counter[str]:
    """Return the words of a Markdown or plain text, without the addresses of links."""
    return Counter(re.findall(r"\w+", re.sub(r"\]\([^)]*\)", "] ", text).casefold()))


def f1(found: str, expected: str) -> float:
    """Return the F1 score of words."""
    mine, theirs = words(found), words(expected)
    common = (mine & theirs).total()
    return 2 * common / ((mine.total() + theirs.total()) or 1) if theirs else 1.0


def plain(markup: str) -> str:
    """Return the text of expected.html."""
    return entities.unescape(re.sub(r"<[^>]*>", " ", markup))


class Node:
    """Readability.js in one process."""

    def __init__(self, folder: Path) -> None:
        script = (Path(__file__).parent / "readability.mjs").resolve()
        self._process = subprocess.Popen(
            ["node", "--stack-size=2000", script], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **given: str) -> Answer:
        """Return the article of a page, given as `html` or `base64`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        return Answer(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def _timed(work: Callable[[], str | None]) -> Answer:
    started = time.thread_time()
    try:
        text = work()
    except Exception:  # a library under test may raise anything
        text = None
    return Answer(text, (time.thread_time() - started) * 1000)


def _extract(source: str | bytes) -> Answer:
    return _timed(lambda: trafilatura.extract(source, url=_URL) or "")


def _convert(tool: PreparedTool, source: str) -> Answer:
    def work() -> str:
        try:
            return str(tool.execute({"html": source, "url": _URL}).result["markdown"])
        except ToolError as error:
            if error.code in ("tool:no-content", "tool:too-deep"):
                return ""
            raise

    return _timed(work)


def damage(source: str, chance: random.Random) -> str:
    """Cut, repeat, nest or replace a part of a page."""
    low, high = sorted(chance.randrange(len(source) + 1) for _ in range(2))
    high = min(high, low + 20_000)
    how = chance.randrange(6)
    if how == 0:
        return source[:low]
    if how == 1:
        return source[:low] + source[high:]
    if how == 2:
        return source[:high] + source[low:high] * 3 + source[high:]
    if how == 3:
        return source[:low] + "<div>" * 500 + source[low:]
    if how == 4:
        return source[:low] + source[low:high].replace(">", "") + source[high:]
    return source[:low] + "".join(map(chr, chance.choices(range(1, 256), k=2000))) + source[low:]


def _charset_page(charset: str, language: str, how: str) -> bytes:
    text = f"<p>{_SENTENCES[language] * 3}</p>" * 8
    declared = f'<meta charset="{charset}">' if how == "meta" else ""
    markup = f"<html><head>{declared}<title>T</title></head><body><article>{text}</article></body></html>"
    return markup.encode("cp874" if charset == "windows-874" else charset)


def _is_right(answer: Answer, language: str) -> bool:
    return _SENTENCES[language] in re.sub(r"\s+", " ", (answer.text or "").replace("\\", ""))


def _fetch(tool: PreparedTool) -> Answer:
    return _timed(lambda: str(tool.execute({"url": _URL}).result["content"]))


def judge_charsets(web: Web, node: Node, config: WasmRuntimeConfig) -> None:
    """Print the number of charsets that are read rightly, by the place of the declaration."""
    for how in ("header", "meta", "undeclared"):
        right: Counter[str] = Counter()
        # A runtime of its own: the grant of web_fetch has 60 requests a minute.
        with WasmToolRuntime(config) as runtime:
            fetch = runtime.prepare_installed("web_fetch")
            for charset, language in CHARSETS:
                data = _charset_page(charset, language, how)
                kind = f"text/html; charset={charset}" if how == "header" else "text/html"
                web.pages[_URL] = http_response(data, headers=(("Content-Type", kind),))
                coded = base64.b64encode(data).decode()
                right["web_fetch"] += _is_right(_fetch(fetch), language)
                right["trafilatura"] += _is_right(_extract(data), language)
                right["jsdom + readability.js"] += _is_right(node.ask(base64=coded), language)
        note = " (the others do not get the header)" if how == "header" else ""
        print(f"  {how}: {dict(right)} of {len(CHARSETS)}{note}")


def _report(name: str, answers: list[Answer], expected: list[str] | None) -> None:
    times = sorted(answer.ms for answer in answers)
    speed = f"median {statistics.median(times):.1f} ms, longest {times[-1]:.0f} ms"
    failed, empty = sum(answer.text is None for answer in answers), sum(answer.text == "" for answer in answers)
    if expected is None:
        print(f"  {name}: {failed} failed, {empty} without content or refused with a reason; {speed}")
        return
    scores = [f1(answer.text or "", text) for answer, text in zip(answers, expected, strict=True)]
    low = sum(score < 0.5 for score in scores)
    print(f"  {name}: mean F1 {statistics.mean(scores):.3f}, {low} below 0.5, {failed} failed; {speed}")


def main(arguments: list[str]) -> int:
    """Print all figures; return 1 if a damaged page makes html_to_markdown fail."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    folders = sorted(each for each in Path(arguments[0]).iterdir() if (each / "source.html").is_file())
    sources = [(each / "source.html").read_text(errors="replace") for each in folders]
    expected = [plain((each / "expected.html").read_text()) for each in folders]
    chance = random.Random(7)
    damaged = [damage(chance.choice(sources), chance) for _ in range(_DAMAGED)]
    with tempfile.TemporaryDirectory() as name, serve_web(Path(name)) as web:
        config = WasmRuntimeConfig(isolation="in-process", network=web.network())
        with WasmToolRuntime(config) as runtime:
            tool, node = runtime.prepare_installed("html_to_markdown"), Node(Path(arguments[1]))
            failures = 0
            for title, pages, right in (("pages", sources, expected), ("damaged pages", damaged, None)):
                print(f"{len(pages)} {title}")
                ours = [_convert(tool, source) for source in pages]
                failures += sum(answer.text is None for answer in ours) if right is None else 0
                _report("html_to_markdown", ours, right)
                _report("jsdom + readability.js", [node.ask(html=source) for source in pages], right)
                _report("trafilatura", [_extract(source) for source in pages], right)
            print("charsets")
            judge_charsets(web, node, config)
            node.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
