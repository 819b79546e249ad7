"""The `Secret` type, the interface of its stores, and a view for one user."""

from __future__ import annotations

import hmac
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from wasmrt.core.errors import SecretError, SecretNotFoundError
from wasmrt.core.limits import MAX_SECRET_BYTES, MAX_USER_BYTES, MIN_SECRET_CHARS
from wasmrt.core.names import is_secret_name
from wasmrt.core.url import InvalidUrlError, parse_url

DEFAULT_USER = "local"
"""The user of a single-user installation. Never a fallback for another user."""

# The companion `NAME~oauth` has the data to renew NAME. A capability file cannot spell a name with a tilde.
OAUTH_SUFFIX = "~oauth"


class Secret:
    """A secret value. Prints as `***`, does not pickle or copy, and is read only through `reveal`.

    Raises:
        SecretError: the value is empty, longer than 64 KiB, or not encodable as UTF-8.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not value:
            raise SecretError("a secret must not be empty", code="secret-value")
        # SECURITY: no `try`, because the context of an encoding error would contain the value.
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise SecretError("a secret must be valid Unicode text", code="secret-value")
        size = len(value.encode())
        if size > MAX_SECRET_BYTES:
            raise SecretError(f"a secret may have at most {MAX_SECRET_BYTES} bytes, not {size}", code="secret-value")
        self._value = value

    def reveal(self) -> str:
        """Return the value. Called only just before sending, and by scanners and backends."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    __hash__ = None  # type: ignore[assignment]  # SECURITY: the hash of a short secret reveals it

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Secret does not pickle or copy")


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """The public part of a stored secret: its name and its times in Unix seconds."""

    name: str
    created_at: float
    expires_at: float | None = None


class SecretsStore(Protocol):
    """A store of secrets, by user and lower-case name. Users never see each other's secrets.

    Every method raises `SecretBackendError` if the store cannot be read or written.
    """

    def get(self, user: str, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""

    def set(self, user: str, name: str, secret: Secret, *, expires_at: float | None = None) -> None:
        """Store `secret` and replace an older value; `expires_at` is in Unix seconds."""

    def remove(self, user: str, name: str) -> None:
        """Delete the secret, or raise `SecretNotFoundError`."""

    def list(self, user: str) -> tuple[SecretInfo, ...]:
        """Return names and times, sorted by name, without the companions of OAuth secrets."""

    def exists(self, user: str, name: str) -> bool:
        """Return whether the secret is set and has not expired."""


def replace_secret(
    store: SecretsStore, user: str, name: str, secret: Secret, *, expires_at: float | None = None
) -> None:
    """Store a user-provided secret, and delete the login that would renew its older value.

    Raises:
        SecretError: the store cannot be read or written, or the name is invalid.
    """
    # Delete first: after a crash in between, the older value stays, and no renewal overwrites the new one later.
    with suppress(SecretNotFoundError):  # there was no login
        store.remove(user, name + OAUTH_SUFFIX)
    store.set(user, name, secret, expires_at=expires_at)


def checked_name(name: str) -> str:
    """Return `name` in lower case (`SLACK_TOKEN` and `slack_token` are the same secret).

    Raises:
        SecretError: the name is longer than 128, has characters other than `a-z 0-9 _ - .`, or ends in `-` or `.`.
    """
    lowered = name.lower()
    if not is_secret_name(lowered.removesuffix(OAUTH_SUFFIX)):
        raise SecretError(
            "a secret's name must have 1 to 128 letters, digits and _, with - and . only between them",
            code="secret-name",
            hint="choose a name such as example_token",
        )
    return lowered


def check_user(user: str) -> str:
    """Return `user` unchanged.

    Raises:
        SecretError: the user is empty, too long or has control characters.
    """
    if not user or len(user.encode(errors="replace")) > MAX_USER_BYTES or not user.isprintable():
        raise SecretError("a user's name must be 1 to 256 printable characters", code="secret-user")
    return user


def set_command(user: str, name: str) -> str:
    """Return the command that sets the secret `name` of `user`."""
    return f"wasmrt secret set {name}" + ("" if user == DEFAULT_USER else f" --user {user}")


@dataclass(frozen=True, slots=True)
class UserSecrets:
    """A store's view for one user: a call cannot read another user's secrets."""

    store: SecretsStore
    user: str

    def get(self, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        return self.store.get(self.user, name)

    def exists(self, name: str) -> bool:
        """Return whether the secret is set and has not expired."""
        return self.store.exists(self.user, name)

    def renewed(self, name: str) -> Secret | None:
        """Return None: a plain secret cannot be renewed."""
        return None


_NOT_IN_A_FIELD = re.compile(r"[^\x20-\x7e]")  # RFC 9110, 5.5, without obsolete text
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # RFC 7617, 2


def check_usable(name: str, secret: Secret) -> str | None:
    """Return a sentence on the places that cannot contain the value of the secret `name`, or None if all can.

    SECURITY: the sentence has the position and kind of an invalid character, but never the character.

    Raises:
        SecretError: no place can contain the value, because it is too short to be recognised in a response.
    """
    value = secret.reveal()
    if len(value) < MIN_SECRET_CHARS:
        raise SecretError(
            f"the value of {name} has fewer than {MIN_SECRET_CHARS} characters: it could not be recognised in a "
            "response, so it would never be sent",
            code="secret-value",
            hint="set the whole token, as the service shows it",
        )
    places = ["a query parameter"]  # accepts everything, percent-encoded
    if not (in_path := _fits_a_path(value)):
        problem: str | None = "it contains a dot segment ('.' or '..')"
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
        return "it starts or ends with a blank" if value != value.strip(" ") else None
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
