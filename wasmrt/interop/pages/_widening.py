"""The fields in which a person says which parameters of an answer that holds always may be others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from wasmrt.agent.approvals import Wide, Widening
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.pages._frame import table
from wasmrt.interop.pages._html import Html, Part, foreign, tag

_MAX_PLACES = 40
_MAX_VALUE_CHARS = 60
_KINDS = (
    ("same", "the same"),
    (Wide.ANY, "anything"),
    (Wide.STARTS, "a text that begins with"),
    (Wide.BELOW, "a path below"),
)


def widening_fields(params: Mapping[str, Any], form: Mapping[str, str]) -> Html | None:
    """Return a field set with a row for each place of the parameters, or None where there are none.

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
    """Yield what a form widens: JSON Pointers with the values that may stand there.

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
    """Yield JSON Pointers (RFC 6901) of everything in the parameters, with its value in short: what is above first."""
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
