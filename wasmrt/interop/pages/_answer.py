"""Forms that answer an approval request or an access request."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from wasmrt.agent.approvals import Wide, Widening
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_APPROVAL_BYTES, MAX_JSON_DEPTH
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.interop.pages._html import Frame, Html, Part, make_facts, make_hidden_field, quote_text, table, tag

S = TypeVar("S", bound=StrEnum)


class Tried(NamedTuple):
    """A rejected answer, to be shown again on the page of its request."""

    problem: Html | None = None
    form: Mapping[str, str] = {}
    """The fields that were sent."""
    status: int = 200


FIRST_TRY = Tried()


def answer_in(form: Mapping[str, str], allow: str, scopes: type[S]) -> tuple[bool, S]:
    """Return whether a form allows the request, and its scope; its answer is `allow` or `deny`, `-`, and the scope.

    Raises:
        ConfigurationError: the form contains no answer.
    """
    verb, _, scope = form.get("answer", "").partition("-")
    if verb not in (allow, "deny") or scope not in set(scopes):
        raise ConfigurationError("the form contains no answer", hint="press one of the buttons of the page")
    return verb == allow, scopes(scope)


def more_form(frame: Frame, action: str, user: str, *ways: Part, form: Mapping[str, str], deny: str) -> Html:
    """Return the folded form with the other answers. Deny is its first button, so Enter in a field submits a denial."""
    first = tag(
        "button", "Deny", type="submit", name="answer", value=deny, class_="unseen", tabindex="-1", aria_hidden="true"
    )
    note = tag("section", text_field("note", "Note for the receipt", form, maxlength="300"), class_="way")
    whole = frame.form(action, make_hidden_field("user", user), first, *ways, note)
    return tag("details", tag("summary", "More options"), whole, id="more", open=True)


def show_answer(title: str, covers: Part, ends: str, button: tuple[str, str], *fields: Part) -> Html:
    """Return one of the further answers: its scope, when it ends, and its button."""
    value, text = button
    return tag(
        "section",
        tag("h2", title),
        make_facts(("Covers", covers), ("Ends", ends or None)),
        *fields,
        tag("p", tag("button", text, type="submit", name="answer", value=value)),
        class_="way",
    )


def text_field(name: str, label: str, form: Mapping[str, str], *, maxlength: str) -> Html:
    """Return a one-line text field with its previous value."""
    entry = tag(
        "input", type="text", id=name, name=name, maxlength=maxlength, value=form.get(name), autocomplete="off",
        spellcheck="false",
    )  # fmt: skip
    return tag("p", tag("label", label, for_=name), entry)


def edit_fields(params: Mapping[str, Any], form: Mapping[str, str]) -> Html:
    """Return the field in which the parameters can be changed."""
    text = form.get("params") or json.dumps(params, ensure_ascii=False, indent=2)
    box = tag("textarea", text, id="params", name="params", rows="6", spellcheck="false", class_="their")
    return tag("p", tag("label", "Parameters as JSON", for_="params"), box)


def edited_params(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the changed parameters of a form. The call is checked again with them.

    Raises:
        ConfigurationError: the text is not a JSON object.
    """
    try:
        text = form.get("params", "")
        found = read_json(text, max_bytes=MAX_APPROVAL_BYTES, max_depth=MAX_JSON_DEPTH, exact=True)
    except JsonError as error:
        raise ConfigurationError(f"the parameters are {error}", hint="write a JSON object") from None
    if not isinstance(found, dict):
        raise ConfigurationError("expected the parameters as a JSON object", hint='such as {"path": "a.txt"}')
    return found


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
    places = list(islice(_iter_places(params), _MAX_PLACES + 1))
    if not places:
        return None
    rows = [_make_row(index, place, value, form) for index, (place, value) in enumerate(places[:_MAX_PLACES])]
    more = "Not all values are listed; wasmrt approvals approve --like NAME=TEXT can widen any of them."
    return tag(
        "fieldset",
        tag("legend", "Parameters that may differ"),
        table("Parameters that may differ in later calls", ("Parameter", "It is", "It may be", "Text or folder"), rows),
        tag("p", more) if len(places) > _MAX_PLACES else None,
    )


def widened_by(params: Mapping[str, Any], form: Mapping[str, str]) -> Iterator[tuple[str, Widening]]:
    """Yield the JSON Pointers that a form widens, with their allowed values.

    Raises:
        ConfigurationError: a text widens nothing, or more than it appears to.
    """
    for index, (place, _) in enumerate(islice(_iter_places(params), _MAX_PLACES)):
        kind, text = form.get(f"may-{index}", "same"), form.get(f"text-{index}", "")
        if kind in set(Wide):
            yield place, Widening(Wide(kind), text)
        elif kind != "same" or text:
            raise ConfigurationError(
                f"no choice was made for {place[1:]!r:.80}", hint='choose a value for "It may be", or clear its text'
            )


def _make_row(index: int, place: str, value: str, form: Mapping[str, str]) -> list[Part]:
    name = quote_text(place[1:])
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
    return [name, quote_text(value), select, text]


def _iter_places(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the JSON Pointer (RFC 6901) and shortened value of every parameter, outer values first."""
    waiting: deque[tuple[str, Any]] = deque([("", params)])
    while waiting:
        pointer, value = waiting.popleft()
        if pointer:
            yield pointer, _shorten_value(value)
        inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for name, each in inside:
            waiting.append((f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}", each))


def _shorten_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]} ... {len(text):,} characters"
