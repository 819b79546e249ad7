"""SkillStore: the skills of an installation. Own ones lie in folders of a person's, installed ones are pinned."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wasmrt.agent.builtin.skills._folder import SkillFiles, read_folder
from wasmrt.agent.builtin.skills._records import SkillRecord, SkillTrust, read_record, write_record
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
    """A skill as it was read, once: its text, its files, and how far it is trusted."""

    skill: Skill
    files: SkillFiles
    trust: SkillTrust
    origin: str = ""

    @property
    def digest(self) -> str:
        """BLAKE3 of all of its files."""
        return self.files.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSkill:
    """One line of the list: a skill, or why it cannot be used."""

    name: str
    trust: SkillTrust
    loaded: LoadedSkill | None = None
    problem: WasmrtError | None = None


class SkillStore:
    """The skills of a data folder, and of the folders that an operator names. Making one touches nothing on disk.

    Args:
        places: The installation.
        folders: Folders of a person's own skills, besides the installation's.
        workspace: The folder that tools write in, where there is one: no skill in it is a person's own.
    """

    def __init__(self, places: Places, folders: Sequence[Path] = (), *, workspace: Path | None = None) -> None:
        self._own = (places.skills, *folders)
        self._installed = places.installed_skills
        self._workspace = workspace

    def skills(self) -> tuple[ListedSkill, ...]:
        """Return every skill by name, own ones before installed ones of the same name."""
        found: dict[str, ListedSkill] = {}
        for folder in self._own:
            for name in _names(folder):
                found.setdefault(name, self._listed(name, SkillTrust.OWN))
        for name in _names(self._installed):
            found.setdefault(name, self._listed(name, SkillTrust.INSTALLED))
        return tuple(found[name] for name in sorted(found))

    def read(self, name: str) -> LoadedSkill:
        """Read a skill, whole and once, and hold it against what a person agreed to.

        Raises:
            NotInstalledError: there is none of this name.
            IntegrityError: it changed since somebody agreed to it.
            SkillError, PackageError: it cannot be used as it is.
        """
        check_skill_name(name)
        if (folder := self._own_folder(name)) is not None:
            return self._read_own(folder, name)
        files = self._installed_files(name)
        record = read_record(self._record(name))
        # SECURITY: the very bytes that are used are the ones that are held against what a person saw.
        if record is None or record.digest != files.digest:
            said = "nobody agreed to" if record is None else "changed since somebody agreed to"
            raise IntegrityError(
                f"{said} the skill {name} as it is now" if record is None else f"the skill {name} {said} it",
                code="skill-changed", hint=f"a person looks at it: wasmrt skills trust {name}",
            )  # fmt: skip
        return LoadedSkill(skill=read_skill(files, name), files=files, trust=record.trust, origin=record.origin)

    def waiting(self, name: str) -> LoadedSkill:
        """Return an installed skill as it lies there, whether somebody agreed to it or not: for a person who looks.

        Raises:
            ConfigurationError: it is a skill of a person's own, which nobody has to agree to.
            NotInstalledError: there is none of this name.
            SkillError, PackageError: it cannot be used as it is.
        """
        check_skill_name(name)
        if self._own_folder(name) is not None and name not in _names(self._installed):
            self.read(name)  # raises where it is not one that can be trusted
            raise ConfigurationError(
                f"{name} is a person's own skill, and trusted as it lies there", code="own-skill",
                hint="there is nothing to agree to; wasmrt skills list shows it",
            )  # fmt: skip
        files = self._installed_files(name)
        with suppress(IntegrityError):
            record = read_record(self._record(name))
            if record is not None:
                return LoadedSkill(skill=read_skill(files, name), files=files, trust=record.trust, origin=record.origin)
        return LoadedSkill(skill=read_skill(files, name), files=files, trust=SkillTrust.INSTALLED)

    def install(self, name: str, files: SkillFiles, *, origin: str) -> LoadedSkill:
        """Keep the files of a skill, as a person agreed to them, in place of what was installed under its name.

        Raises:
            SkillError: it is not valid.
            InstallError: a person has one of this name of their own, there are too many, or it cannot be written.
        """
        skill = read_skill(files, check_skill_name(name))
        if self._own_folder(name) is not None:
            raise InstallError(
                f"{name} is the name of a skill that a person put here", code="name-taken", hint="choose another one"
            )
        if len(_names(self._installed)) >= MAX_SKILLS:
            raise InstallError(f"{MAX_SKILLS} skills are installed", code="too-many", hint="remove some of them")
        record = SkillRecord(files.digest, SkillTrust.INSTALLED, origin, time.time_ns() // 1_000_000)
        draft = self._installed / f".new-{os.urandom(8).hex()}"
        try:
            self._installed.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.mkdir(mode=0o700)
            _write(draft, files)
            # Cut off between the two, the record is of other bytes: nothing is read before a person looked.
            self._drop(name)
            draft.rename(self._installed / name)
            write_record(self._record(name), record)
        except OSError as error:
            raise InstallError(f"the skill cannot be kept ({error.strerror})", hint="check space and owner") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return LoadedSkill(skill=skill, files=files, trust=record.trust, origin=origin)

    def trust(self, name: str, digest: str, level: SkillTrust) -> LoadedSkill:
        """Pin an installed skill as a person was shown it, and trust it so far.

        Raises:
            NotInstalledError: there is none of this name.
            IntegrityError: it is not what the person was shown.
            InstallError: it cannot be written.
        """
        now = self.waiting(name)
        if now.digest != digest:
            raise IntegrityError(f"the skill {name} changed meanwhile", code="skill-changed", hint="look at it again")
        record = SkillRecord(digest, level, now.origin, time.time_ns() // 1_000_000)
        try:
            write_record(self._record(name), record)
        except OSError as error:
            raise InstallError(f"it cannot be written ({error.strerror})", hint="check who owns it") from error
        return LoadedSkill(skill=now.skill, files=now.files, trust=level, origin=now.origin)

    def check_removable(self, name: str) -> None:
        """Refuse a name that nothing is installed under.

        Raises:
            ConfigurationError: it is a skill of a person's own.
            NotInstalledError: there is none of this name.
        """
        check_skill_name(name)
        if name in _names(self._installed):
            return
        if self._own_folder(name) is not None:
            raise ConfigurationError(
                f"{name} is a skill that a person put here, and only a person takes it away", code="own-skill",
                hint="remove its folder",
            )  # fmt: skip
        raise self._none(name)

    def remove(self, name: str) -> None:
        """Remove an installed skill, and what was agreed to of it.

        Raises:
            ConfigurationError: it is a skill of a person's own.
            NotInstalledError: there is none of this name.
            InstallError: it cannot be removed.
        """
        self.check_removable(name)
        try:
            self._drop(name)
        except OSError as error:
            raise InstallError(f"{name} cannot be removed ({error.strerror})", hint="check who owns it") from error

    def _drop(self, name: str) -> None:
        self._record(name).unlink(missing_ok=True)
        folder = self._installed / name
        if not folder.is_symlink() and folder.is_dir():
            gone = self._installed / f".old-{os.urandom(8).hex()}"
            folder.rename(gone)
            shutil.rmtree(gone)
        else:
            folder.unlink(missing_ok=True)

    def _record(self, name: str) -> Path:
        return self._installed / f".{name}.json"

    def _own_folder(self, name: str) -> Path | None:
        return next((folder for folder in self._own if os.path.lexists(folder / name)), None)

    def _read_own(self, folder: Path, name: str) -> LoadedSkill:
        self._check_own(folder)
        try:
            files = read_folder(folder, name)
        except OSError as error:
            raise PackageError(f"the skill {name} cannot be read ({error.strerror})") from error
        return LoadedSkill(skill=read_skill(files, name), files=files, trust=SkillTrust.OWN, origin="a person's folder")

    def _check_own(self, folder: Path) -> None:
        """SECURITY: what another user, or a tool, can write is not a person's word."""
        root = None if self._workspace is None else Path(os.path.realpath(self._workspace))
        real = Path(os.path.realpath(folder))
        if root is not None and (real.is_relative_to(root) or root.is_relative_to(real)):
            raise PackageError(
                "this folder of skills lies in the workspace, where tools write", code="skill-folder",
                hint="move it, or name another folder in [skills]",
            )  # fmt: skip
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PackageError(
                "others can write this folder of skills", code="skill-folder", hint="chmod go-w the folder"
            )

    def _installed_files(self, name: str) -> SkillFiles:
        try:
            return read_folder(self._installed, name)
        except FileNotFoundError:
            raise self._none(name) from None
        except OSError as error:
            raise PackageError(f"the skill {name} cannot be read ({error.strerror})") from error

    def _none(self, name: str) -> NotInstalledError:
        near = did_you_mean(name, [skill.name for skill in self.skills()])
        hint = f"did you mean {near}?" if near else "wasmrt skills list, or skill_list, shows them"
        return NotInstalledError(f"there is no skill {name!r:.80}", hint=hint)

    def _listed(self, name: str, trust: SkillTrust) -> ListedSkill:
        try:
            loaded = self.read(name)
        except WasmrtError as error:
            return ListedSkill(name=name, trust=trust, problem=error)
        return ListedSkill(name=name, trust=loaded.trust, loaded=loaded)


def _names(folder: Path) -> list[str]:
    """Return the names of a folder's folders that can be skills."""
    return sorted(_valid(folder))[:MAX_SKILLS]


def _valid(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(SkillError):
                    if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
                        yield check_skill_name(entry.name)
    except OSError:
        return


def _write(draft: Path, files: SkillFiles) -> None:
    for path, content in files.files.items():
        target = draft / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(target, content, durable=False)
