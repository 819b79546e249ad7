"""Files that other programs execute, often without a question: build files, hooks, start files and editor settings."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from wasmrt.agent.builtin.shell._scan import Stamp

_NAMES = {
    "make": "Makefile makefile GNUmakefile *.mk",
    "npm": "package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs",
    "node": "*.config.js *.config.cjs *.config.mjs *.config.ts .eslintrc.js .eslintrc.cjs Gruntfile.js gulpfile.js",
    "python": "conftest.py setup.py setup.cfg pyproject.toml tox.ini noxfile.py sitecustomize.py"
    " usercustomize.py *.pth",
    "direnv": ".envrc",
    "a version manager": ".tool-versions mise.toml .mise.toml",
    "a shell": ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .inputrc",
    "an editor": ".vimrc .exrc .nvimrc .nvim.lua .editorconfig *.code-workspace",
    "a debugger": ".gdbinit .lldbinit",
    "git": ".pre-commit-config.yaml lefthook.yml .lefthook.yml",
    "CI": ".gitlab-ci.yml Jenkinsfile azure-pipelines.yml .travis.yml",
    "a container engine": "Dockerfile Dockerfile.* Containerfile docker-compose.yml docker-compose.yaml compose.yml"
    " compose.yaml",
    "a build tool": "justfile Justfile CMakeLists.txt build.rs build.gradle build.gradle.kts settings.gradle pom.xml"
    " Rakefile Gemfile WORKSPACE BUILD BUILD.bazel SConstruct meson.build Taskfile.yml gradlew mvnw",
    "R": ".Rprofile",
    "a user": "*.sh *.bash *.zsh *.fish *.ps1 *.bat *.cmd *.desktop",
}  # fmt: skip
_FOLDERS = {
    ".vscode": "an editor", ".idea": "an editor", ".fleet": "an editor", ".zed": "an editor",
    ".devcontainer": "an editor", ".husky": "git", ".githooks": "git", ".circleci": "CI", ".cargo": "cargo",
    ".hg": "hg", ".jj": "jj",
}  # fmt: skip
_EXACT: dict[str, str] = {}
_PATTERNS: list[tuple[str, str]] = []
for _by, _names in _NAMES.items():
    for _name in _names.split():
        if "*" in _name:
            _PATTERNS.append((_name, _by))
        else:
            _EXACT[_name] = _by
_INSTALLED = frozenset(("node_modules", "site-packages", "__pycache__"))
_EXECUTE = 0o111
_DATA = re.compile(
    r"(?!CMakeLists|.*requirements|.*constraints).*\.(log|txt|out|err|md|csv|tsv|html?|diff|patch|png|jpe?g|svg|pdf|gz|tgz|zip|xz|bz2|tar|tmp|bak)"
)


def executed_by(path: str, stamp: Stamp | None) -> str:
    """Return the kind of program that executes a file of the workspace, or empty text if none is known.

    `stamp` is the file's status after the command, or None if the command deleted it. The files of installed libraries
    are left out.
    """
    *folders, name = path.split("/")
    if not _INSTALLED.isdisjoint(folders) or (stamp is not None and stamp.is_folder):
        return ""
    if ".github/workflows/" in f"{path}/":
        return "CI"
    by = next((_FOLDERS[each] for each in folders if each in _FOLDERS), "") or _EXACT.get(name, "")
    by = by or next((by for pattern, by in _PATTERNS if fnmatchcase(name, pattern)), "")
    return by or ("a user" if stamp is not None and stamp.is_file and stamp.mode & _EXECUTE else "")


def may_be_code(path: str) -> bool:
    """Return whether a program may execute a file, according to its name."""
    return _DATA.fullmatch(path.rpartition("/")[2]) is None
