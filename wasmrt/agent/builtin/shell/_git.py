"""Decide which changes of git's own files are harmless: settings by an allowlist, no hooks, no redirections.

Source: git-config(1), gitrepository-layout(5), githooks(5). A setting that is not listed may make git run a program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

CONFIG_FILES = ("config", "config.worktree")
REDIRECTION = "commondir"
REBASE_PLAN = "rebase-merge/git-rebase-todo"

_HARMLESS = {
    "user": "name email useconfigonly signingkey",
    "author": "name email",
    "committer": "name email",
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol"
    " safecrlf quotepath abbrev untrackedcache preloadindex sparsecheckout sparsecheckoutcone compression",
    "extensions": "objectformat compatobjectformat refstorage worktreeconfig partialclone preciousobjects noop",
    "init": "defaultbranch",
    "branch": "autosetupmerge autosetuprebase sort",
    "branch.*": "remote pushremote merge rebase description",
    "remote.*": "url pushurl fetch push prune prunetags tagopt mirror skipdefaultupdate skipfetchall promisor"
    " partialclonefilter",
    "remote": "pushdefault",
    "submodule": "active recurse fetchjobs",
    "submodule.*": "url active branch ignore shallow fetchrecursesubmodules",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "fetch": "prune prunetags parallel",
    "rebase": "autosquash autostash",
    "merge": "ff conflictstyle",
    "commit": "verbose gpgsign",
    "tag": "sort gpgsign",
    "log": "date decorate follow",
    "diff": "renames algorithm colormoved",
    "status": "short branch showuntrackedfiles",
    "index": "sparse version",
    "gc": "auto",
    "rerere": "enabled autoupdate",
}  # fmt: skip
_ALLOWED = {(section, name) for section, names in _HARMLESS.items() for name in names.split()}
_ADDRESSES = ("url", "pushurl", "remote", "pushremote", "pushdefault")
_ADDRESS = re.compile(r'(?!-|[A-Za-z0-9+.-]+::)[^"\\]*')
"""SECURITY: no option, and not `helper::address`, which runs `git-remote-helper`. Quotes could hide both."""
_FOLDER = re.compile(r"[A-Za-z0-9_./-]+")
_BLANK = re.compile(r"(?a)\s*([#;].*)?")
_SECTION = re.compile(r'(?a)\[([A-Za-z0-9-]+)(?: "((?:[^"\\]|\\["\\])*)")?\]\s*')
_SETTING = re.compile(r"(?a)\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Setting(NamedTuple):
    """One setting: section and name in lower case, and the rest of the line as it stands."""

    section: str
    subsection: str | None
    name: str
    value: str

    @property
    def shown(self) -> str:
        """The name of the setting, without a subsection, which is untrusted text."""
        return f"{self.section}{'' if self.subsection is None else '.*'}.{self.name}"


def parse_settings(content: bytes) -> list[Setting] | None:
    """Return the settings of a file, or None if it has anything that this parser does not read exactly as git does.

    SECURITY: continued lines, settings on the line of a section and control characters are legal, but not accepted.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if _CONTROL.search(text) is not None:
        return None
    settings, section, subsection = [], "", None
    for line in text.split("\n"):
        if line.endswith("\\"):
            return None
        if _BLANK.fullmatch(line):
            continue
        if (head := _SECTION.fullmatch(line)) is not None:
            section, subsection = head[1].lower(), head[2]
        elif section and (found := _SETTING.fullmatch(line)) is not None:
            settings.append(Setting(section, subsection, found[1].lower(), (found[2] or "").strip()))
        else:
            return None
    return settings


def refused_setting(content: bytes, before: bytes, folder: str) -> str | None:
    """Return the refusal for the first new setting that may run a program and is not in `before`, or None.

    `folder` is the repository's folder, relative to the workspace.
    """
    known = set(parse_settings(before) or ())
    settings = parse_settings(content)
    if settings is None:
        return "its settings cannot be read with certainty"
    for setting in settings:
        if setting not in known and not _is_harmless(setting, folder):
            return f"{setting.shown} can make git run a program"
    return None


def included_files(content: bytes) -> Iterator[str]:
    """Yield the paths of files that settings include, as written."""
    for setting in parse_settings(content) or ():
        if setting.section in ("include", "includeif") and setting.name == "path":
            yield setting.value.strip('"')


def _is_harmless(setting: Setting, folder: str) -> bool:
    section = setting.section if setting.subsection is None else f"{setting.section}.*"
    if (section, setting.name) == ("core", "worktree"):  # written in submodules
        return _FOLDER.fullmatch(setting.value) is not None and resolve(folder, setting.value) is not None
    if (section, setting.name) not in _ALLOWED:
        return False
    return setting.name not in _ADDRESSES or _ADDRESS.fullmatch(setting.value) is not None


def resolve(folder: str, path: str) -> str | None:
    """Return a relative path as seen from the workspace, or None if it leads out of it."""
    plain = os.path.normpath(f"{folder}/{path}" if folder else path)
    if path.startswith("/") or plain == ".." or plain.startswith("../"):
        return None
    return "" if plain == "." else plain


def is_harmless_redirection(content: bytes, folder: str, root: str, repositories: Collection[str]) -> bool:
    """Return whether a `.git` file or a `commondir` file leads to a repository of the workspace."""
    try:
        path = content.decode().removeprefix("gitdir:").strip()
    except UnicodeDecodeError:
        return False
    if path.startswith(f"{root}/"):
        folder, path = "", path.removeprefix(f"{root}/")
    return "\n" not in path and resolve(folder, path) in repositories


def is_harmless_plan(content: bytes) -> bool:
    """Return whether the plan of a rebase starts no program."""
    return not any(line.split()[:1] in ([b"exec"], [b"x"]) for line in content.splitlines())
