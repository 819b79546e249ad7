"""`html_to_markdown` with ordinary pages and with hostile pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wasmrt import PreparedTool
from wasmrt.core.errors import FuelExhaustedError, InvalidParametersError, ToolError
from wasmrt.core.limits import MIB

PAGES = Path(__file__).parent / "pages"
Run = Callable[..., Any]


@pytest.fixture
def convert(prepared: Callable[[str], PreparedTool]) -> Run:
    return lambda html, **params: prepared("html_to_markdown").execute({"html": html, **params}).result


@pytest.fixture
def fails(prepared: Callable[[str], PreparedTool]) -> Callable[..., ToolError]:
    def run(html: str, **params: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            prepared("html_to_markdown").execute({"html": html, **params})
        return caught.value

    return run


def cases() -> list[Any]:
    """Return each page with the lines that its Markdown must and must not contain."""
    return [pytest.param(page, id=page.stem) for page in sorted(PAGES.glob("*.html"))]


@pytest.mark.parametrize("page", cases())
def test_article_of_a_page_becomes_markdown(page: Path, convert: Run) -> None:
    expected = json.loads(page.with_suffix(".json").read_text())
    answer = convert(page.read_text(), **expected.get("params", {"url": "https://example.com/docs/page.html"}))
    markdown = answer["markdown"]
    for wanted in expected["has"]:
        assert wanted in markdown, markdown
    for unwanted in expected["has_not"]:
        assert unwanted not in markdown, markdown
    if "title" in expected:
        assert answer["title"] == expected["title"]


def body(inner: str) -> str:
    return f"<html><body><article><h1>T</h1><p>{'Words, and more words. ' * 30}</p>{inner}</article></body></html>"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>",
            "| A | B |\n| - | - |\n| 1 | 2 |",
        ),
        ('<pre><code class="language-rust">fn a() {}</code></pre>', "```rust\nfn a() {}\n```"),
        ('<div class="highlight highlight-source-python"><pre>a = <span>1</span></pre></div>', "```python\na = 1\n```"),
        ('<pre class="brush: js">a()<br>b()</pre>', "```js\na()\nb()\n```"),
        ('<pre data-lang="C++">int a;</pre>', "```c++\nint a;\n```"),
        ("<pre>plain</pre>", "```\nplain\n```"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
        ('<ol start="3"><li>a</li><li>b</li></ol>', "3. a\n4. b"),
        ("<blockquote><p>said</p></blockquote>", "> said"),
        ('<p><a href="../up?a=b#c">up</a></p>', "[up](https://example.com/up?a=b#c)"),
        ('<p><a href="//other.example/x">x</a></p>', "[x](https://other.example/x)"),
        ('<p><img src="a.png" alt="A"></p>', "![A](https://example.com/docs/a.png)"),
        (
            '<p><img src="data:image/gif;base64,R0lG" data-src="/real.png" alt="L"></p>',
            "![L](https://example.com/real.png)",
        ),
        ("<p><b>bold</b> and <i>it</i> and <code>c</code></p>", "**bold** and *it* and `c`"),
    ],
)
def test_elements_are_converted_to_markdown(convert: Run, html: str, markdown: str) -> None:
    for mode in ("article", "page"):
        answer = convert(body(html), url="https://example.com/docs/page.html", mode=mode)
        assert markdown in answer["markdown"], mode


_MATHML = '<math{}><semantics><mi>x</mi><annotation encoding="application/x-tex">{}</annotation></semantics></math>'


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (f"<p>a {_MATHML.format('', 'x_1^2 * y')} b</p>", "a $x_1^2 * y$ b"),
        (f"<div>{_MATHML.format(' display=block', 'a &lt; b')}</div>", "$$a < b$$"),
        ('<p>a <math alttext="\\frac{1}{2}"><mfrac><mn>1</mn><mn>2</mn></mfrac></math> b</p>', "a $\\frac{1}{2}$ b"),
        ('<p>a <script type="math/tex">x^2</script> b</p>', "a $x^2$ b"),
        (
            f'<p>a <span><span style="display: none">{_MATHML.format("", "y")}</span>'
            '<img src="/y.svg" alt="y" aria-hidden="true"></span> b</p>',
            "a ![y](https://example.com/y.svg) b",
        ),
        (f'<p>a <span>{_MATHML.format("", "z")}<span aria-hidden="true">drawn</span></span> b</p>', "a $z$ b"),
        ('<p>a <img src="" alt="none"> <img src="/i.png" alt="" aria-hidden="true"> b</p>', "a b"),
    ],
)
def test_formulas_and_images_for_readers_stay(convert: Run, html: str, markdown: str) -> None:
    for mode in ("article", "page"):
        answer = convert(body(html), url="https://example.com/docs/page.html", mode=mode)
        assert markdown in answer["markdown"].replace("  ", " "), mode


def test_scripts_and_handlers_are_removed(convert: Run) -> None:
    hostile = (
        '<script>alert(1)</script><style>x</style><p><a href="javascript:alert(2)">one</a> '
        '<a href=" JaVaScRiPt:alert(3)">two</a> <a href="vbscript:x">three</a> <img src="javascript:4" alt="p"></p>'
        '<iframe src="//evil.example"></iframe><svg onload="alert(5)"></svg><noscript>off</noscript>'
        '<p hidden>hidden one</p><p aria-hidden="true">hidden two</p>'
    )
    for params in ({}, {"url": "https://example.com/"}):
        markdown = convert(body(hostile), mode="page", **params)["markdown"]
        assert "one two three" in markdown
        for word in ("alert", "script:", "evil", "hidden", "off"):
            assert word not in markdown.lower(), word


def test_off_returns_the_page_unchanged(convert: Run) -> None:
    page = "<p>as <b>it</b> is\r\n\u00e9"
    assert convert(page, mode="off") == {"markdown": page, "converted": False}


def test_links_stay_relative_without_a_base_url(convert: Run) -> None:
    assert "[a](../b)" in convert(body('<p><a href="../b">a</a></p>'))["markdown"]


def test_page_without_an_article_suggests_a_fix(fails: Callable[..., ToolError], convert: Run) -> None:
    error = fails("<html><body></body></html>")
    assert error.code == "tool:no-content" and '"page"' in error.message
    assert convert("<html><body></body></html>", mode="page")["markdown"] == ""
    assert fails("<p>x", url="not a url").code == "tool:invalid-url"
    assert fails("<p>x", url="file:///etc/passwd").code == "tool:invalid-url"


@pytest.mark.parametrize(
    ("html", "code", "said"),
    [
        ("x" * (5 * MIB + 1), "tool:page-too-large", "has 5242881 bytes"),
        ("<p>" * 200_001, "tool:page-too-large", "more than 200000 tags"),
        ("<div>" * 5000, "tool:too-deep", "more than 256 deep"),
        ("<b><i>" * 2000, "tool:too-deep", "more than 256 deep"),
    ],
    ids=["bytes", "tags", "deep", "formatting"],
)
def test_page_beyond_a_limit_is_reported(fails: Callable[..., ToolError], html: str, code: str, said: str) -> None:
    error = fails(html, mode="page")
    assert error.code == code and said in error.message


def test_oversized_page_is_refused_before_parsing(fails: Callable[..., ToolError]) -> None:
    error = fails("<p>word</p>" * (10 * MIB // 11))
    assert isinstance(error, InvalidParametersError) and "8,388,608 bytes" in error.message


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    "html",
    [
        "<p>word " * 190_000,
        "<a>" * 100_000,
        "<table>" * 10_000,
        "<!--" * 200_000,
        "<div " + " ".join(f"a{number}=1" for number in range(40_000)) + ">x",
        "&amp;" * 250_000,
        "<select><option>" * 5000,
        "<svg><foreignObject><math>" * 5000,
        "<template>" * 5000,
        "</p>" * 150_000,
        "<a href='" + "x/../" * 200_000 + "'>x</a>",
        "\0\x01<\ufeff" * 1000,
    ],
    ids=lambda html: html[:12].encode("unicode_escape").decode(),
)
def test_hostile_pages_return_a_result_or_a_clear_error(prepared: Callable[[str], PreparedTool], html: str) -> None:
    try:
        answer = prepared("html_to_markdown").execute({"html": html, "mode": "page"}).result
        assert answer["converted"]
    except ToolError as error:
        assert isinstance(error, FuelExhaustedError) or error.code in ("tool:too-deep", "tool:page-too-large")
