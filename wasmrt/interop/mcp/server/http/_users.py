"""The users of a server over HTTP: each has one token, of which only the digest is kept."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.interop.web import TokenDigest, new_token

MAX_USERS = 1000
_MAX_BYTES = 512 * KIB
PREFIX = "wasmrt-"
"""Of every token that is made here."""


class UserTokens:
    """The file of token digests, by user. Read again whenever it changes, so that a token ends without a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._known: dict[str, TokenDigest] = {}

    def user_of(self, token: str | None) -> str | None:
        """Return the user of a token; None for one that is nobody's.

        SECURITY: every digest is compared, so that the time says nothing of whose it nearly was.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        users = self._users()
        if token is None:
            return None
        given = TokenDigest.of(token)
        found = [user for user, digest in users.items() if digest.equals(given)]
        return found[0] if found else None

    def has(self, user: str) -> bool:
        """Tell whether a user has a token.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        return user in self._users()

    def renew(self, user: str) -> str:
        """Return a new token for a user, the only time that it can be seen; the one before ends.

        Raises:
            ConfigurationError: the file cannot be used, or there are too many users.
        """
        token = new_token(PREFIX)
        users = {**self._users(), user: TokenDigest.of(token)}
        if len(users) > MAX_USERS:
            raise ConfigurationError(f"there are {MAX_USERS:,} users already", hint=f"remove some from {self._path}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            data = json.dumps({name: digest.hex for name, digest in users.items()}, indent=1)
            replace_file(self._path, data.encode())
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written ({error.strerror})") from error
        return token

    def _users(self) -> dict[str, TokenDigest]:
        try:
            status = self._path.stat()
        except OSError:
            return {}
        seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        with self._lock:
            if seen != self._seen:
                self._known, self._seen = self._read(), seen
            return self._known

    def _read(self) -> dict[str, TokenDigest]:
        hint = "remove it, and make new tokens with wasmrt serve --new-token USER"
        try:
            data = read_file(self._path, max_bytes=_MAX_BYTES, follow_link=False, private=True)
            found = read_json(data, max_bytes=_MAX_BYTES, max_depth=2, exact=True)
            return {user: TokenDigest(digest) for user, digest in found.items()}
        except (UnfitFileError, OSError, JsonError, ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{self._path} holds no tokens ({error})"[:300], hint=hint) from None
