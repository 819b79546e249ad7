"""Build HTML from escaped elements, and the frame that all pages share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from wasmrt.agent.approvals import Phrase, Quoted
from wasmrt.core.errors import WasmrtError
from wasmrt.core.terminal import printable
from wasmrt.interop.web import Response, Session

_JSON_TEXT = re.compile(r'("(?:[^"\\]|\\.)*"?)')
_EMPTY = frozenset(("br", "hr", "input", "link", "meta"))


class Html(str):
    """Escaped HTML. Only this module creates it."""

    __slots__ = ()


Part = str | None
"""A child: `Html` unchanged, other text escaped, None omitted."""


def tag(name: str, /, *children: Part, **attributes: str | bool | None) -> Html:
    """Return an element. Names are trusted. `_` in an attribute's name becomes a hyphen; a trailing `_` is removed.

    Attributes that are None or False are omitted; True means an attribute without a value.
    """
    given = "".join(
        f" {_get_attribute_name(key)}" if value is True else f' {_get_attribute_name(key)}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join_html(*children)}</{name}>")


def join_html(*children: Part) -> Html:
    """Return the concatenated parts."""
    return Html("".join(child if isinstance(child, Html) else _escape(child) for child in children if child))


_SHORT_CHARS = 22


def quote_text(text: str) -> Html:
    """Return untrusted inline text in its own style, left to right. Short text is not broken into two lines."""
    kind = "their short" if len(text) <= _SHORT_CHARS else "their"
    return tag("bdi", text.replace("\n", " "), dir="ltr", class_=kind)


def render_phrase(phrase: Phrase) -> Html:
    """Return a phrase with its untrusted parts in their own style."""
    return join_html(*(quote_text(part) if isinstance(part, Quoted) else part for part in phrase))


def quote_lines(lines: list[str], *, kind: str, label: str) -> Html:
    """Return a block of untrusted lines, left to right, scrollable by keyboard.

    SECURITY: right-to-left letters reorder the characters between them. The end of a line ends that (Unicode
    Standard Annex 9, P1), and each JSON string is isolated here, so that a value cannot swap places with its name.
    """
    marks = {"+": "added", "-": "removed"} if kind == "changes" else {}
    body = Html("\n".join(_show_line(line, marks.get(line[:1])) for line in lines))
    return tag("pre", body, class_=f"their {kind}", tabindex="0", role="region", aria_label=label, dir="ltr")


def _show_line(line: str, mark: str | None) -> Html:
    return tag("span", *_iter_texts(line), class_=mark) if mark else join_html(*_iter_texts(line))


def _iter_texts(line: str) -> Iterator[Part]:
    if line.isascii():
        yield line
        return
    for piece in _JSON_TEXT.split(line):
        yield tag("bdi", piece, dir="ltr") if piece.startswith('"') else piece


def _escape(text: str) -> str:
    """SECURITY: escape markup, and show invisible and reordering characters as escapes (`\\u202e`)."""
    return escape(printable(text), quote=True)


def _get_attribute_name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


_SCRIPT = "text/javascript; charset=utf-8"
_FILES = {"style.css": "text/css; charset=utf-8", "refresh.js": _SCRIPT, "session.js": _SCRIPT}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_SECTIONS = (
    ("", "Waiting"),
    ("remembered", "Answers"),
    ("receipts", "Receipts"),
    ("grants", "Grants"),
    ("work", "Jobs"),
    ("flows", "Flows"),
)


class Frame(NamedTuple):
    """The context in which a page is shown."""

    base: str
    """The path prefix of all files."""
    session: Session | None = None
    request: str | None = None
    """The request to open if the browser has a session."""

    @property
    def root(self) -> str:
        """The path prefix of all links on the page: the path of the browser's session, or `base` without a session."""
        return self.base if self.session is None else self.session.path

    def page(
        self, title: str, *content: Part, section: str | None = None, status: int = 200, heading: bool = True
    ) -> Response:
        """Return a page; `heading` is false if the content has its own first heading."""
        head = (
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{title} - wasmrt"),
            tag("link", rel="stylesheet", href=f"{self.base}style.css"),
            tag("script", src=f"{self.base}refresh.js", defer=True),
            self._make_session_script(),
        )
        body = (
            tag("a", "Skip to the content", href="#content", class_="skip"),
            self._header(section),
            tag("main", tag("h1", title) if heading else None, *content, id="content", tabindex="-1"),
            self._make_footer(),
        )
        html = f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', *body), lang='en')}\n"
        return html_response(html, status=status)

    def form(self, action: str, *content: Part, **attributes: str) -> Html:
        """Return a POST form that contains the session's token."""
        assert self.session is not None
        token = make_hidden_field("form_token", self.session.form_token)
        return tag("form", token, *content, method="post", action=f"{self.root}{action}", **attributes)

    def back(self) -> Html:
        """Return a link to the list of pending requests."""
        return tag("a", "All requests", href=self.root, class_="back")

    def _make_session_script(self) -> Html | None:
        """Return the script that stores the session or opens the stored one, or None if the page needs neither."""
        root = None if self.session is None else self.session.path
        if root is None and self.request is None:
            return None
        return tag(
            "script", src=f"{self.base}session.js", defer=True, data_base=self.base, data_root=root,
            data_request=self.request,
        )  # fmt: skip

    def _header(self, section: str | None) -> Html:
        if self.session is None:
            return tag("header", tag("p", "wasmrt", class_="name"))
        links = (
            tag("li", tag("a", name, href=self.root + path, aria_current="page" if path == section else None))
            for path, name in _SECTIONS
        )
        return tag("header", tag("p", "wasmrt", class_="name"), tag("nav", tag("ul", *links), aria_label="Pages"))

    def _make_footer(self) -> Html | None:
        if self.session is None:
            return None
        legend = tag(
            "p", quote_text("Text in this style"), " was chosen by a tool, a model or others. It may be false."
        )
        notify = tag("button", "Notify me of new requests", type="button", id="notify", hidden=True)
        leave = self.form("leave", tag("button", "Sign out", type="submit"))
        return tag("footer", legend, tag("div", notify, leave, class_="row"))


def html_response(html: str, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Return an HTML response that may load only wasmrt's style and script, and submit only to this server."""
    own = (("content-type", "text/html; charset=utf-8"), ("content-security-policy", _POLICY))
    return Response(status=status, headers=(*own, *headers), body=html.encode("utf-8", "replace"))


def file_response(name: str) -> Response | None:
    """Return a static file of the pages, or None."""
    if name not in _FILES:
        return None
    return Response(headers=(("content-type", _FILES[name]),), body=(Path(__file__).parent / name).read_bytes())


def show_alert(error: WasmrtError) -> Html:
    """Return an error message with its hint."""
    hint = join_html(" What to do: ", quote_text(error.hint), ".") if error.hint else None
    return tag(
        "p", tag("strong", "This was not done: "), quote_text(error.message), ".", hint, role="alert", class_="alert"
    )


def make_hidden_field(name: str, value: str) -> Html:
    """Return a hidden field."""
    return tag("input", type="hidden", name=name, value=value)


def make_facts(*pairs: tuple[Part, Part]) -> Html:
    """Return a description list of names and values."""
    listed = (join_html(tag("dt", name), tag("dd", value)) for name, value in pairs if value)
    return tag("dl", *listed, class_="facts")


def table(caption: str, header: tuple[str, ...], rows: list[list[Part]]) -> Html:
    """Return a table that can be scrolled sideways by keyboard. The first cell of each row is its heading."""
    top = tag("tr", *(tag("th", name, scope="col") for name in header))
    body = (tag("tr", tag("th", cells[0], scope="row"), *(tag("td", cell) for cell in cells[1:])) for cells in rows)
    whole = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    return tag("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption)
