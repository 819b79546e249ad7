"""Forms that answer an approval request or an access request."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from wasmrt.agent.approvals import Wide, Widening
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.pages._html import Frame, Html, Part, foreign, hidden, table, tag, together

S = TypeVar("S", bound=StrEnum)
Choices = Iterable[tuple[str, str]]
"""Values of a field, each with its label."""


class Tried(NamedTuple):
    """A rejected answer, to be shown again on the page of its request."""

    problem: Html | None = None
    form: Mapping[str, str] = {}
    """The fields that were sent."""
    status: int = 200


FIRST_TRY = Tried()


def answer_in(form: Mapping[str, str], allow: str, scopes: type[S]) -> tuple[bool, S]:
    """Return whether a form allows the request, and its scope; `allow` is the value of the allow button.

    Raises:
        ConfigurationError: the form contains no answer.
    """
    verb, _, scope = form.get("answer", "").partition("-")
    scope = scope or form.get("scope", "")
    if verb not in (allow, "deny") or scope not in set(scopes):
        raise ConfigurationError("the form contains no answer", hint="choose a scope, then press a button")
    return verb == allow, scopes(scope)


def quick_form(
    frame: Frame, action: str, user: str, title: str, *, deny: str, allow: Choices, verb: str, more: str, cut: bool
) -> Html:
    """Return the quick answers, and a link to the full request.

    SECURITY: as in the terminal, a request that is not fully shown cannot be allowed here.
    """
    note = tag("p", f"Parts of this request are not shown above: read all of it before you {verb} it.") if cut else None
    buttons = _buttons([(deny, "Deny")], () if cut else allow, aria_describedby=title)
    whole = tag("a", more, href=f"{frame.root}{action}", aria_describedby=title)
    return together(note, frame.form(action, hidden("user", user), buttons, tag("p", whole)))


def whole_form(
    frame: Frame, action: str, user: str, scopes: Choices, *fields: Part, form: Mapping[str, str], deny: Choices,
    allow: Choices,
) -> Html:  # fmt: skip
    """Return the form with every choice. Deny is its first button, so Enter in a field submits a denial."""
    chosen = form.get("scope", "once")
    radios = (
        tag(
            "p",
            tag("input", type="radio", name="scope", value=value, id=f"scope-{value}", checked=value == chosen),
            tag("label", text, for_=f"scope-{value}"),
        )
        for value, text in scopes
    )
    long = tag("fieldset", tag("legend", "Scope"), *radios)
    note = text_field("note", "Note for the receipt", form, maxlength="300")
    return frame.form(action, hidden("user", user), long, *fields, note, _buttons(deny, allow))


def text_field(name: str, label: str, form: Mapping[str, str], *, maxlength: str) -> Html:
    """Return a one-line text field with its previous value."""
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


_MAX_PLACES = 40
_MAX_VALUE_CHARS = 60
_KINDS = (
    ("same", "the same"),
    (Wide.ANY, "anything"),
    (Wide.STARTS, "any text that begins with"),
    (Wide.BELOW, "a path below"),
)


def widening_fields(params: Mapping[str, Any], form: Mapping[str, str]) -> Html | None:
    """Return a field set with a row for each parameter value, or None without parameters.

    Args:
        params: The call's parameters.
        form: The fields of a rejected answer, to be shown again.
    """
    places = list(islice(_places(params), _MAX_PLACES + 1))
    if not places:
        return None
    rows = [_row(index, place, value, form) for index, (place, value) in enumerate(places[:_MAX_PLACES])]
    more = "Not all values are listed; wasmrt approvals approve --like NAME=TEXT can widen any of them."
    return tag(
        "fieldset",
        tag("legend", "If the answer applies from now on"),
        table("Parameters that may differ in later calls", ("Parameter", "It is", "It may be", "Text or folder"), rows),
        tag("p", more) if len(places) > _MAX_PLACES else None,
    )


def widened_by(params: Mapping[str, Any], form: Mapping[str, str]) -> Iterator[tuple[str, Widening]]:
    """Yield the JSON Pointers that a form widens, with their allowed values.

    Raises:
        ConfigurationError: a text widens nothing, or more than it appears to.
    """
    for index, (place, _) in enumerate(islice(_places(params), _MAX_PLACES)):
        kind, text = form.get(f"may-{index}", "same"), form.get(f"text-{index}", "")
        if kind in set(Wide):
            yield place, Widening(Wide(kind), text)
        elif kind != "same" or text:
            raise ConfigurationError(
                f"no choice was made for {place[1:]!r:.80}", hint="choose what it may be, or leave its text empty"
            )


def _row(index: int, place: str, value: str, form: Mapping[str, str]) -> list[Part]:
    name = foreign(place[1:])
    chosen = form.get(f"may-{index}", "same")
    options = (tag("option", text, value=str(kind), selected=str(kind) == chosen) for kind, text in _KINDS)
    select = tag("select", *options, name=f"may-{index}", aria_label=f"{place[1:]} may be")
    text = tag(
        "input",
        type="text",
        name=f"text-{index}",
        value=form.get(f"text-{index}"),
        aria_label=f"Text or folder for {place[1:]}",
        autocomplete="off",
        spellcheck="false",
    )
    return [name, foreign(value), select, text]


def _places(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the JSON Pointer (RFC 6901) and shortened value of every parameter, outer values first."""
    waiting: deque[tuple[str, Any]] = deque([("", params)])
    while waiting:
        pointer, value = waiting.popleft()
        if pointer:
            yield pointer, _in_short(value)
        inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for name, each in inside:
            waiting.append((f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}", each))


def _in_short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]} ... {len(text):,} characters"
