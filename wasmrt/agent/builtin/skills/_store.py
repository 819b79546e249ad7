"""SkillStore: the skills of an installation. Own skills are in a user's folders; installed skills are pinned."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wasmrt.agent.builtin.skills._folder import (
    SkillFiles,
    SkillRecord,
    SkillTrust,
    read_folder,
    read_record,
    write_record,
)
from wasmrt.agent.builtin.skills._skill import Skill, SkillError, check_skill_name, read_skill
from wasmrt.core.errors import (
    ConfigurationError,
    InstallError,
    IntegrityError,
    NotInstalledError,
    PackageError,
    WasmrtError,
)
from wasmrt.core.files import replace_file
from wasmrt.core.names import did_you_mean
from wasmrt.core.places import Places

MAX_SKILLS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill with its files and its level of trust."""

    skill: Skill
    files: SkillFiles
    trust: SkillTrust
    origin: str = ""

    @property
    def digest(self) -> str:
        """BLAKE3 of all its files."""
        return self.files.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSkill:
    """An entry of the list: a skill, or the reason why it cannot be used."""

    name: str
    trust: SkillTrust
    loaded: LoadedSkill | None = None
    problem: WasmrtError | None = None


class SkillStore:
    """The skills of a data folder, and of the operator's folders. The constructor does not access the disk.

    Args:
        places: The installation.
        folders: More folders of the user's own skills.
        workspace: The folder that tools can write, if any. Folders of skills must not overlap it.
    """

    def __init__(self, places: Places, folders: Sequence[Path] = (), *, workspace: Path | None = None) -> None:
        self._own = (places.skills, *folders)
        self._installed = places.installed_skills
        self._workspace = workspace

    def skills(self) -> tuple[ListedSkill, ...]:
        """Return all skills, sorted by name. The user's own skill hides an installed skill of the same name."""
        found: dict[str, ListedSkill] = {}
        for folder in self._own:
            for name in _list_names(folder):
                found.setdefault(name, self._list_entry(name, SkillTrust.OWN))
        for name in _list_names(self._installed):
            found.setdefault(name, self._list_entry(name, SkillTrust.INSTALLED))
        return tuple(found[name] for name in sorted(found))

    def read(self, name: str) -> LoadedSkill:
        """Read a skill. An installed skill is compared with the record of its approval.

        Raises:
            NotInstalledError: no skill has this name.
            IntegrityError: the skill has changed since it was approved, or was not approved.
            SkillError, PackageError: the skill is invalid.
        """
        check_skill_name(name)
        if (folder := self._find_own_folder(name)) is not None:
            return self._read_own(folder, name)
        files = self._read_installed_files(name)
        record = read_record(self._record(name))
        # SECURITY: the digest is computed from the same bytes that are used later.
        if record is None or record.digest != files.digest:
            problem = "has not been approved" if record is None else "has changed since it was approved"
            hint = f"a user has to review it: wasmrt skills trust {name}"
            raise IntegrityError(f"the skill {name} {problem}", code="skill-changed", hint=hint)
        return LoadedSkill(skill=read_skill(files, name), files=files, trust=record.trust, origin=record.origin)

    def waiting(self, name: str) -> LoadedSkill:
        """Read an installed skill for review by a user, even if the skill is not approved.

        Raises:
            ConfigurationError: the skill is the user's own, which needs no approval.
            NotInstalledError: no skill has this name.
            SkillError, PackageError: the skill is invalid.
        """
        check_skill_name(name)
        if self._find_own_folder(name) is not None and name not in _list_names(self._installed):
            self.read(name)  # raises an error if the skill is invalid
            raise ConfigurationError(
                f"{name} is in your own folder of skills, and already trusted", code="own-skill",
                hint="no action is needed; to see it: wasmrt skills list",
            )  # fmt: skip
        files, trust, origin = self._read_installed_files(name), SkillTrust.INSTALLED, ""
        with suppress(IntegrityError):
            if (record := read_record(self._record(name))) is not None:
                trust, origin = record.trust, record.origin
        return LoadedSkill(skill=read_skill(files, name), files=files, trust=trust, origin=origin)

    def install(self, name: str, files: SkillFiles, *, origin: str) -> LoadedSkill:
        """Store the approved files of a skill, replacing an installed skill of the same name.

        Raises:
            SkillError: the new skill is invalid.
            InstallError: the user has a skill of this name, there are too many skills, or it cannot be written.
        """
        skill = read_skill(files, check_skill_name(name))
        if self._find_own_folder(name) is not None:
            problem = f"your own folder of skills has a skill named {name}"
            raise InstallError(problem, code="name-taken", hint="choose a different name")
        if len(_list_names(self._installed)) >= MAX_SKILLS:
            raise InstallError(
                f"{MAX_SKILLS} skills are already installed, the maximum", code="too-many", hint="remove some of them"
            )
        record = SkillRecord(files.digest, SkillTrust.INSTALLED, origin, time.time_ns() // 1_000_000)
        draft = self._installed / f".new-{os.urandom(8).hex()}"
        try:
            self._installed.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.mkdir(mode=0o700)
            _write(draft, files)
            # If this is interrupted, the record is missing, and the skill is not read until a user reviews it.
            self._delete(name)
            draft.rename(self._installed / name)
            write_record(self._record(name), record)
        except OSError as error:
            hint = "check the free disk space, and the folder's owner"
            raise InstallError(f"cannot store the skill ({error.strerror})", hint=hint) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return LoadedSkill(skill=skill, files=files, trust=record.trust, origin=origin)

    def trust(self, name: str, digest: str, level: SkillTrust) -> LoadedSkill:
        """Pin an installed skill to the digest that a user reviewed, and set its level of trust.

        Raises:
            NotInstalledError: no skill has this name.
            IntegrityError: the skill has a different digest.
            InstallError: the record cannot be written.
        """
        now = self.waiting(name)
        if now.digest != digest:
            problem = f"the skill {name} has changed since it was shown"
            raise IntegrityError(problem, code="skill-changed", hint="review it again")
        record = SkillRecord(digest, level, now.origin, time.time_ns() // 1_000_000)
        try:
            write_record(self._record(name), record)
        except OSError as error:
            problem = f"cannot write the record of the skill {name} ({error.strerror})"
            raise InstallError(problem, hint="check the folder's owner and permissions") from error
        return LoadedSkill(skill=now.skill, files=now.files, trust=level, origin=now.origin)

    def check_removable(self, name: str) -> None:
        """Check that an installed skill has this name.

        Raises:
            ConfigurationError: the skill is the user's own.
            NotInstalledError: no skill has this name.
        """
        check_skill_name(name)
        if name in _list_names(self._installed):
            return
        if self._find_own_folder(name) is not None:
            problem = f"{name} is in the user's own folder of skills, which wasmrt does not change"
            raise ConfigurationError(problem, code="own-skill", hint="delete its folder")
        raise self._not_found_error(name)

    def remove(self, name: str) -> None:
        """Remove an installed skill and its record.

        Raises:
            ConfigurationError: the skill is the user's own.
            NotInstalledError: no skill has this name.
            InstallError: the skill cannot be removed.
        """
        self.check_removable(name)
        try:
            self._delete(name)
        except OSError as error:
            problem = f"cannot remove the skill {name} ({error.strerror})"
            raise InstallError(problem, hint="check the folder's owner and permissions") from error

    def _delete(self, name: str) -> None:
        self._record(name).unlink(missing_ok=True)
        folder = self._installed / name
        if not folder.is_symlink() and folder.is_dir():
            old = self._installed / f".old-{os.urandom(8).hex()}"
            folder.rename(old)
            shutil.rmtree(old)
        else:
            folder.unlink(missing_ok=True)

    def _record(self, name: str) -> Path:
        return self._installed / f".{name}.json"

    def _find_own_folder(self, name: str) -> Path | None:
        return next((folder for folder in self._own if os.path.lexists(folder / name)), None)

    def _read_own(self, folder: Path, name: str) -> LoadedSkill:
        self._check_own(folder)
        try:
            files = read_folder(folder, name)
        except OSError as error:
            raise PackageError(f"cannot read the skill {name} ({error.strerror})") from error
        return LoadedSkill(skill=read_skill(files, name), files=files, trust=SkillTrust.OWN, origin="the user's folder")

    def _check_own(self, folder: Path) -> None:
        """Check a folder of the user's own skills.

        SECURITY: text that tools or other users can write is untrusted.
        """
        root = None if self._workspace is None else Path(os.path.realpath(self._workspace))
        real = Path(os.path.realpath(folder))
        if root is not None and (real.is_relative_to(root) or root.is_relative_to(real)):
            raise PackageError(
                "this folder of skills overlaps the workspace, which tools can write", code="skill-folder",
                hint="move the folder of skills, or set a different folder: wasmrt config edit",
            )  # fmt: skip
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            problem = "other users can write this folder of skills"
            raise PackageError(problem, code="skill-folder", hint="run chmod go-w on the folder")

    def _read_installed_files(self, name: str) -> SkillFiles:
        try:
            return read_folder(self._installed, name)
        except FileNotFoundError:
            raise self._not_found_error(name) from None
        except OSError as error:
            raise PackageError(f"cannot read the skill {name} ({error.strerror})") from error

    def _not_found_error(self, name: str) -> NotInstalledError:
        near = did_you_mean(name, [skill.name for skill in self.skills()])
        hint = f"did you mean {near}?" if near else "list the skills: wasmrt skills list, or skill_list"
        return NotInstalledError(f"there is no skill {name!r:.80}", hint=hint)

    def _list_entry(self, name: str, trust: SkillTrust) -> ListedSkill:
        try:
            loaded = self.read(name)
        except WasmrtError as error:
            return ListedSkill(name=name, trust=trust, problem=error)
        return ListedSkill(name=name, trust=loaded.trust, loaded=loaded)


def _list_names(folder: Path) -> list[str]:
    """Return the names of a folder's entries that may be skills."""
    found: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(SkillError):
                if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
                    found.append(check_skill_name(entry.name))
    return sorted(found)[:MAX_SKILLS]


def _write(draft: Path, files: SkillFiles) -> None:
    for path, content in files.files.items():
        target = draft / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(target, content, durable=False)
