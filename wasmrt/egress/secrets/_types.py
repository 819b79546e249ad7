"""The `Secret` type, the interface of its stores, the rules that all stores share, and a view for one user."""

from __future__ import annotations

import hmac
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from wasmrt.core.errors import SecretBackendError, SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.core.limits import MAX_SECRET_BYTES, MAX_USER_BYTES, MIN_SECRET_CHARS
from wasmrt.core.names import is_secret_name
from wasmrt.core.tasks import offload
from wasmrt.core.url import InvalidUrlError, parse_url

DEFAULT_USER = "local"
"""The user of a single-user installation. The secrets of this user are never a fallback for another user."""

# The entry `NAME~oauth` contains the data to renew the secret `NAME`. Capability files cannot request such an entry,
# because the names in them cannot contain a tilde.
OAUTH_SUFFIX = "~oauth"


class Secret:
    """A secret value. It prints as `***`, cannot be pickled or copied, and can only be read with `reveal`.

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
        """Return the value. Call this only just before the value is sent, and in scanners and backends."""
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
        raise TypeError("a Secret cannot be pickled or copied")


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
        """Return the names and times of the user's secrets, sorted by name, without entries for refresh tokens."""

    def exists(self, user: str, name: str) -> bool:
        """Return whether the secret is set and has not expired."""

    def hint_to_set(self, user: str, name: str) -> str:
        """Return an instruction for setting a secret in this store, such as a command."""

    def check_writable(self, user: str, name: str) -> None:
        """Raise `SecretBackendError` if wasmrt cannot store the secret, because the store is read-only."""


def replace_secret(
    store: SecretsStore, user: str, name: str, secret: Secret, *, expires_at: float | None = None
) -> None:
    """Store a secret that the user provided. If the older value came from a login, delete the login.

    Raises:
        SecretError: the store cannot be read or written, or the name is invalid.
    """
    # Delete the login first. If it were deleted last, a crash in between would let it overwrite the new value later.
    with suppress(SecretNotFoundError):  # raised without a login
        store.remove(user, name + OAUTH_SUFFIX)
    store.set(user, name, secret, expires_at=expires_at)


def normalize_secret_name(name: str) -> str:
    """Return `name` in lower case (`SLACK_TOKEN` and `slack_token` are the same secret).

    Raises:
        SecretError: the name is empty or longer than 128 characters, has characters other than `a-z 0-9 _ - .`, or
            begins or ends with `-` or `.`.
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
    """A view of a store that is limited to one user, so that a call cannot read another user's secrets."""

    store: SecretsStore
    user: str

    def get(self, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        return offload(lambda: self.store.get(self.user, name))  # a store may start a program, or wait for a keyring

    def exists(self, name: str) -> bool:
        """Return whether the secret is set and has not expired."""
        return self.store.exists(self.user, name)

    def renewed(self, name: str) -> Secret | None:
        """Return None: a plain secret cannot be renewed."""
        return None

    def hint_to_set(self, name: str) -> str:
        """Return an instruction for the user to set a secret."""
        return self.store.hint_to_set(self.user, name)


_NOT_IN_A_FIELD = re.compile(r"[^\x20-\x7e]")  # RFC 9110, 5.5, without obsolete text
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # RFC 7617, 2


def check_usable(name: str, secret: Secret) -> str | None:
    """List the places in a request where a secret's value fits, in a sentence. Return None if it fits everywhere.

    SECURITY: the sentence contains the position and kind of an invalid character, but never the character.

    Raises:
        SecretError: the value must not be sent at all, because it is too short to be recognised in a response.
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
    if not (in_path := _fits_path(value)):
        problem: str | None = "it contains a dot segment ('.' or '..')"
    else:
        places.append("a place in a URL's path")
        problem = None
    if not _CONTROL.search(value):
        places.append("a basic login")
    if (unfit := _describe_unfit_for_field(value)) is None:
        places.append("a bearer token or header")
        if in_path:
            return None
    reason = "; ".join(part for part in (unfit, problem) if part)
    return f"{name} can only be used as {_join_with_or(places)}: {reason}"


def _describe_unfit_for_field(value: str) -> str | None:
    found = _NOT_IN_A_FIELD.search(value)
    if found is None:
        return "it starts or ends with a blank" if value != value.strip(" ") else None
    kind = "outside ASCII"
    if _CONTROL.match(found[0]):
        kind = "a line break" if found[0] in "\r\n" else "a control character"
    return f"character {found.start() + 1} is {kind}"


def _fits_path(value: str) -> bool:
    try:
        parse_url("https://a.invalid/{it}").with_placeholder("it", value)
    except InvalidUrlError:
        return False
    return True


def _join_with_or(places: list[str]) -> str:
    return places[0] if len(places) == 1 else f"{', '.join(places[:-1])} or {places[-1]}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored secret, with its times in Unix seconds."""

    secret: Secret
    created_at: float
    expires_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry for a backend that protects it. The result contains the value, so never log it."""
        return {"value": self.secret.reveal(), "created_at": self.created_at, "expires_at": self.expires_at}

    @classmethod
    def from_json(cls, data: object) -> Entry:
        """Create an entry from the output of `as_json`.

        Raises:
            SecretBackendError: the data has a different form.
        """
        if isinstance(data, dict) and data.keys() == {"value", "created_at", "expires_at"}:
            value, created, expires = data["value"], data["created_at"], data["expires_at"]
            if isinstance(value, str) and _is_time(created) and (expires is None or _is_time(expires)):
                return cls(Secret(value), created, expires)
        raise SecretBackendError("a stored secret has a format that this version of wasmrt does not know")


class EntryStore(ABC):
    """A `SecretsStore` built on four primitives; `now` returns Unix seconds."""

    backend = ""
    """The name of the store in `BACKENDS`, or an empty string for other stores."""
    lists_names = True
    """False if the names of the secrets cannot be listed."""
    read_only = ""
    """The source of the secrets, such as `Vault`, if wasmrt cannot change them; otherwise an empty string."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def get(self, user: str, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        user, name = check_user(user), normalize_secret_name(name)
        entry = self._read(user, name)
        if entry is None:
            # SECURITY: another user's secrets are never read. A fallback to a default user would leak across tenants.
            raise SecretNotFoundError(f"the secret {name} is not set", hint=self.hint_to_set(user, name))
        if self._is_expired(entry):
            raise SecretExpiredError(f"the secret {name} has expired", hint=self.hint_to_set(user, name))
        return entry.secret

    def set(self, user: str, name: str, secret: Secret, *, expires_at: float | None = None) -> None:
        """Store `secret` and replace an older value; `expires_at` is in Unix seconds."""
        user, name = check_user(user), normalize_secret_name(name)
        if expires_at is not None and not _is_time(expires_at):
            raise SecretError("expires_at must be in Unix seconds", code="secret-expiry")
        self.check_writable(user, name)
        self._write(user, name, Entry(secret, self._now(), expires_at))

    def remove(self, user: str, name: str) -> None:
        """Delete the secret and the entry with its refresh token, or raise `SecretNotFoundError`."""
        user, name = check_user(user), normalize_secret_name(name)
        if (self.read_only and self._read(user, name) is None) or not self._delete(user, name):
            raise SecretNotFoundError(f"the secret {name} is not set", hint="run wasmrt secret list to see the names")
        if not name.endswith(OAUTH_SUFFIX):
            self._delete(user, name + OAUTH_SUFFIX)

    def list(self, user: str) -> tuple[SecretInfo, ...]:
        """Return the names and times of the user's secrets, sorted by name, without entries for refresh tokens."""
        user = check_user(user)
        infos = []
        for name in sorted(self._names(user)):
            if not name.endswith(OAUTH_SUFFIX) and (entry := self._read(user, name)) is not None:
                infos.append(SecretInfo(name, entry.created_at, entry.expires_at))
        return tuple(infos)

    def exists(self, user: str, name: str) -> bool:
        """Return whether the secret is set and has not expired."""
        entry = self._read(check_user(user), normalize_secret_name(name))
        return entry is not None and not self._is_expired(entry)

    def hint_to_set(self, user: str, name: str) -> str:
        """Return an instruction for setting a secret in this store, such as a command."""
        return f"run: {set_command(user, name)}"

    def check_writable(self, user: str, name: str) -> None:
        """Raise `SecretBackendError` if the store is read-only."""
        if self.read_only:
            reason = f"secrets from {self.read_only} are read-only"
            raise SecretBackendError(reason, hint=self.hint_to_set(user, name))

    def _is_expired(self, entry: Entry) -> bool:
        return entry.expires_at is not None and entry.expires_at <= self._now()

    @abstractmethod
    def _read(self, user: str, name: str) -> Entry | None: ...

    def _write(self, user: str, name: str, entry: Entry) -> None:
        raise NotImplementedError  # only read-only stores have no method of this name

    @abstractmethod
    def _delete(self, user: str, name: str) -> bool: ...

    @abstractmethod
    def _names(self, user: str) -> Iterable[str]: ...


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
