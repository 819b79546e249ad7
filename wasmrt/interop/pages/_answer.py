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
    """Return the quick answers, and a link to the full request.

    SECURITY: as at the terminal, a request that is not fully shown cannot be allowed here.
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


_MAX_PLACES = 40
_MAX_VALUE_CHARS = 60
_KINDS = (
    ("same", "the same"),
    (Wide.ANY, "anything"),
    (Wide.STARTS, "a text that begins with"),
    (Wide.BELOW, "a path below"),
)


def widening_fields(params: Mapping[str, Any], form: Mapping[str, str]) -> Html | None:
    """Return a field set with a row for each parameter value, or None without parameters.

    Args:
        params: The call's parameters.
        form: Fields that were sent before, to be shown again.
    """
    places = list(islice(_places(params), _MAX_PLACES + 1))
    if not places:
        return None
    rows = [_row(index, place, value, form) for index, (place, value) in enumerate(places[:_MAX_PLACES])]
    more = "There are more places than these; wasmrt approvals approve --like NAME=TEXT widens every one."
    return tag(
        "fieldset",
        tag("legend", "If it holds from now on"),
        table("Parameters that may be others then", ("Parameter", "It is", "It may be", "Text or folder"), rows),
        tag("p", more) if len(places) > _MAX_PLACES else None,
    )


def widened_by(params: Mapping[str, Any], form: Mapping[str, str]) -> Iterator[tuple[str, Widening]]:
    """Yield the JSON Pointers that a form widens, with their allowed values.

    Raises:
        ConfigurationError: a text widens nothing, or more than it seems to.
    """
    for index, (place, _) in enumerate(islice(_places(params), _MAX_PLACES)):
        kind, text = form.get(f"may-{index}", "same"), form.get(f"text-{index}", "")
        if kind in set(Wide):
            yield place, Widening(Wide(kind), text)
        elif kind != "same" or text:
            raise ConfigurationError(
                f"it is not chosen what {place[1:]!r:.80} may be", hint="choose it, or leave its text empty"
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
    """Yield JSON Pointers (RFC 6901) of everything in the parameters, with its shortened value: outer values first."""
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
