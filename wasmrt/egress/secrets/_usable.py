"""The places of a request that can hold a secret, reported when it is set rather than when it is first sent.

The places themselves are the injector's, in `wasmrt.egress.gateway`: a test compares the two.
"""

from __future__ import annotations

import re

from wasmrt.core.errors import SecretError
from wasmrt.core.limits import MIN_SECRET_CHARS
from wasmrt.core.url import InvalidUrlError, parse_url
from wasmrt.egress.secrets._types import Secret

_NOT_IN_A_FIELD = re.compile(r"[^\x20-\x7e]")  # RFC 9110, 5.5, without what is obsolete
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # RFC 7617, 2


def check_usable(name: str, secret: Secret) -> str | None:
    """Return a sentence on the places that cannot hold the value of the secret `name`; None where every place can.

    SECURITY: it gives the position of a character and its kind, and never the character.

    Raises:
        SecretError: no place could hold it, because it is shorter than what is recognised in an answer.
    """
    value = secret.reveal()
    if len(value) < MIN_SECRET_CHARS:
        raise SecretError(
            f"the value of {name} has fewer than {MIN_SECRET_CHARS} characters: it could not be recognised in an "
            "answer, so no request would carry it",
            code="secret-value",
            hint="set the whole token, as the service shows it",
        )
    places = ["a query parameter"]  # takes everything, percent-encoded
    if not (in_path := _fits_a_path(value)):
        problem: str | None = "it holds a dot segment ('.' or '..')"
    else:
        places.append("a place in a URL's path")
        problem = None
    if not _CONTROL.search(value):
        places.append("a basic login")
    if (unfit := _unfit_for_a_field(value)) is None:
        places.append("a bearer token or header")
        if in_path:
            return None
    reason = "; ".join(part for part in (unfit, problem) if part)
    return f"{name} can only be used as {_either(places)}: {reason}"


def _unfit_for_a_field(value: str) -> str | None:
    found = _NOT_IN_A_FIELD.search(value)
    if found is None:
        return "it begins or ends with a blank" if value != value.strip(" ") else None
    kind = "outside ASCII"
    if _CONTROL.match(found[0]):
        kind = "a line break" if found[0] in "\r\n" else "a control character"
    return f"character {found.start() + 1} is {kind}"


def _fits_a_path(value: str) -> bool:
    try:
        parse_url("https://a.invalid/{it}").with_placeholder("it", value)
    except InvalidUrlError:
        return False
    return True


def _either(places: list[str]) -> str:
    return places[0] if len(places) == 1 else f"{', '.join(places[:-1])} or {places[-1]}"
