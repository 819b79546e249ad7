"""The forms in which a person answers a request, and what is read from them; deny is their first button."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.pages._frame import Frame, hidden
from wasmrt.interop.pages._html import Html, Part, tag, together

S = TypeVar("S", bound=StrEnum)
Choices = Iterable[tuple[str, str]]
"""Values of a field, each with its words."""


class Tried(NamedTuple):
    """An answer that was not taken, as the page of its request shows it."""

    problem: Html | None = None
    form: Mapping[str, str] = {}
    """The fields that were sent, to be shown again."""
    status: int = 200


FIRST_TRY = Tried()


def answer_in(form: Mapping[str, str], allow: str, scopes: type[S]) -> tuple[bool, S]:
    """Return whether a form allows what was asked, and for how long; `allow` is its word for that.

    Raises:
        ConfigurationError: it holds no answer.
    """
    verb, _, scope = form.get("answer", "").partition("-")
    scope = scope or form.get("scope", "")
    if verb not in (allow, "deny") or scope not in set(scopes):
        raise ConfigurationError("the form holds no answer", hint="choose how long it holds, then press a button")
    return verb == allow, scopes(scope)


def quick_form(
    frame: Frame, action: str, user: str, title: str, *, deny: str, allow: Choices, verb: str, more: str, cut: bool
) -> Html:
    """Return the quick ways to answer, and the way to all of the request.

    SECURITY: as at the terminal, what is not all shown is not allowed: the rest may be what matters.
    """
    note = tag("p", f"Something was left out above: look at all of it before you {verb} it.") if cut else None
    buttons = _buttons([(deny, "Deny")], () if cut else allow, aria_describedby=title)
    whole = tag("a", more, href=f"{frame.root}{action}", aria_describedby=title)
    return together(note, frame.form(action, hidden("user", user), buttons, tag("p", whole)))


def whole_form(
    frame: Frame, action: str, user: str, scopes: Choices, *fields: Part, form: Mapping[str, str], deny: Choices,
    allow: Choices,
) -> Html:  # fmt: skip
    """Return the form with every choice. Deny is its first button, which is what Enter in a field presses."""
    chosen = form.get("scope", "once")
    radios = (
        tag(
            "p",
            tag("input", type="radio", name="scope", value=value, id=f"scope-{value}", checked=value == chosen),
            tag("label", text, for_=f"scope-{value}"),
        )
        for value, text in scopes
    )
    long = tag("fieldset", tag("legend", "How long it holds"), *radios)
    note = text_field("note", "Note, for the record", form, maxlength="300")
    return frame.form(action, hidden("user", user), long, *fields, note, _buttons(deny, allow))


def text_field(name: str, label: str, form: Mapping[str, str], *, maxlength: str) -> Html:
    """Return a field of one line, with what it held before."""
    entry = tag(
        "input", type="text", id=name, name=name, maxlength=maxlength, value=form.get(name), autocomplete="off",
        spellcheck="false",
    )  # fmt: skip
    return tag("p", tag("label", label, for_=name), entry)


def _buttons(deny: Choices, allow: Choices, **attributes: str) -> Html:
    shown = (
        tag("button", text, type="submit", name="answer", value=value, class_=kind, **attributes)
        for kind, choices in (("deny", deny), ("allow", allow))
        for value, text in choices
    )
    return tag("div", *shown, class_="buttons")
