"""The record of an installed skill: what a person agreed to. Without it, or with another digest, it is not read."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from wasmrt.core.errors import IntegrityError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.strict_json import JsonError, read_json

_VERSION = 1
_MAX_BYTES = 8192
_MAX_ORIGIN_CHARS = 500


class SkillTrust(StrEnum):
    """Levels of trust in a skill."""

    OWN = "own"
    """A person put it into a folder of theirs."""
    TRUSTED = "trusted"
    """It was installed, and a person trusted it as it is."""
    INSTALLED = "installed"
    """A person agreed to keep it. It counts as text that a stranger wrote."""

    @property
    def foreign(self) -> bool:
        """True where its text counts as a stranger's."""
        return self is SkillTrust.INSTALLED


class SkillRecord(NamedTuple):
    """All that a person agreed to of an installed skill."""

    digest: str
    trust: SkillTrust
    origin: str
    """The place it came from, in words fit to show."""
    at_ms: int


def read_record(path: Path) -> SkillRecord | None:
    """Return a record; None where there is none.

    Raises:
        IntegrityError: it cannot be used, or others could have written it.
    """
    hint = f"look at the skill, and agree to it: wasmrt skills trust {path.stem}"
    try:
        # SECURITY: who can write it decides what is trusted.
        raw = read_file(path, max_bytes=_MAX_BYTES, follow_link=False, private=True)
        tree = read_json(raw, max_bytes=_MAX_BYTES, max_depth=4, exact=True)
        if tree["schema_version"] != _VERSION:
            raise ValueError("another version")
        trust = SkillTrust(tree["trust"])
        if trust is SkillTrust.OWN:
            raise ValueError("no level of an installed skill")
        return SkillRecord(str(tree["digest"]), trust, str(tree["origin"]), int(tree["at_ms"]))
    except FileNotFoundError:
        return None
    except UnfitFileError as error:
        raise IntegrityError(f"the record of the skill {path.stem} {error.reason}", hint=hint) from None
    except OSError as error:
        raise IntegrityError(f"the record of the skill {path.stem} cannot be read ({error.strerror})") from error
    except (JsonError, KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"the record of the skill {path.stem} is not what wasmrt wrote", hint=hint) from error


def write_record(path: Path, record: SkillRecord) -> None:
    """Write a record, in one step.

    Raises:
        OSError: it cannot be written.
    """
    data = record._asdict() | {"schema_version": _VERSION, "origin": record.origin[:_MAX_ORIGIN_CHARS]}
    replace_file(path, json.dumps(data, ensure_ascii=False).encode() + b"\n")
