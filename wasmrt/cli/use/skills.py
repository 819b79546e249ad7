"""`wasmrt skills`: folders with a SKILL.md, which agents read."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import click

from wasmrt.agent.builtin.skills import SkillFiles, SkillStore, SkillTrust, describe_new, read_folder, read_skill, scan
from wasmrt.agent.config import read_config_file
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import is_interactive, print_lines, print_message, show_columns, show_json, show_json_list
from wasmrt.core.errors import ConfigurationError, GrantRequiredError, SourceError
from wasmrt.core.places import find_places
from wasmrt.core.terminal import printable
from wasmrt.egress.leaks import LeakDetector

_folder_argument = click.argument(
    "folder", type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True)
)


@click.group("skills")
def skills() -> None:
    """Keep skills: folders with a SKILL.md, whose text instructs a model and grants nothing.

    \b
    Examples:
      wasmrt skills list
      wasmrt skills install ./release-notes
      wasmrt skills trust release-notes
    """


@skills.command("list")
@json_option
def list_skills(as_json: bool) -> None:
    """List the skills, with where each comes from and how far it is trusted.

    \b
    Examples:
      wasmrt skills list
      wasmrt skills list --json
    """
    rows = []
    for each in _store().skills():
        loaded, problem = each.loaded, each.problem
        rows.append({
            "name": each.name,
            "trust": str(each.trust),
            "digest": None if loaded is None else loaded.digest,
            "origin": None if loaded is None else loaded.origin,
            "description": None if loaded is None else loaded.skill.description,
            "problem": None if problem is None else problem.message,
            "hint": None if problem is None else problem.hint,
        })  # fmt: skip
    if as_json:
        show_json_list(rows)
        return
    if not rows:
        print_message(f"there is no skill; put a folder into {find_places().skills}, or: wasmrt skills install FOLDER")
        return
    show_columns(
        ("NAME", "TRUST", "DIGEST", "FOR"),
        [(str(r["name"]), str(r["trust"]), (r["digest"] or "")[:12], str(r["description"] or "")[:60]) for r in rows],
    )
    for row in rows:
        if row["problem"]:
            print_message(f"{row['name']} is not read: {row['problem']}" + (f"; {row['hint']}" if row["hint"] else ""))


@skills.command("check")
@_folder_argument
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Check the skill in FOLDER: every mistake of its SKILL.md, and what a person should look at.

    \b
    Examples:
      wasmrt skills check ./release-notes
      wasmrt skills check ./release-notes --json
    """
    files = _read(folder)
    skill = read_skill(files, folder.name)
    findings = scan(files, LeakDetector())
    if as_json:
        found = [finding._asdict() for finding in findings]
        show_json({"name": skill.name, "digest": files.digest, "files": sorted(files.files), "findings": found})
        return
    for finding in findings:
        print_message(f"{'refused' if finding.refuses else 'look at'}: {finding.path} {finding.what}")
    print_message(f"{skill.name} is a valid skill ({files.digest[:12]})")


@skills.command("install")
@_folder_argument
@click.option("--trust", "trusted", is_flag=True, help="Trust its text as a person's own.")
@click.option("--yes", is_flag=True, help="Agree to what is shown, without being asked.")
@json_option
def install(folder: Path, trusted: bool, yes: bool, as_json: bool) -> None:
    """Keep a copy of the skill in FOLDER, as it is now, once somebody agreed.

    Without --trust a model reads it as a stranger's text.

    \b
    Examples:
      wasmrt skills install ./release-notes
      wasmrt skills install ./release-notes --trust --yes --json
    """
    store, files = _store(), _read(folder)
    level = SkillTrust.TRUSTED if trusted else SkillTrust.INSTALLED
    origin = f"the folder {folder.name}"
    _agree(describe_new(folder.name, files, origin, LeakDetector(), level), level, yes=yes, as_json=as_json)
    loaded = store.install(folder.name, files, origin=origin)
    if trusted:
        loaded = store.trust(folder.name, loaded.digest, level)
    _report(loaded.skill.name, str(loaded.trust), loaded.digest, as_json=as_json)


@skills.command("trust")
@click.argument("name")
@click.option(
    "--level",
    type=click.Choice([str(SkillTrust.TRUSTED), str(SkillTrust.INSTALLED)]),
    default=str(SkillTrust.TRUSTED),
    show_default=True,
    help="installed: its text counts as a stranger's.",
)
@click.option("--yes", is_flag=True, help="Agree to what is shown, without being asked.")
@json_option
def trust(name: str, level: str, yes: bool, as_json: bool) -> None:
    """Agree to an installed skill as it is now, after it was shown, and trust it so far.

    \b
    Examples:
      wasmrt skills trust release-notes
      wasmrt skills trust release-notes --level installed --yes --json
    """
    store, given = _store(), SkillTrust(level)
    now = store.waiting(name)
    shown = describe_new(name, now.files, now.origin or "where it lies", LeakDetector(), given)
    _agree(shown, given, yes=yes, as_json=as_json)
    store.trust(name, now.digest, given)
    _report(name, level, now.digest, as_json=as_json)


@skills.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove it without being asked: for scripts.")
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove an installed skill, and what was agreed to of it.

    It asks first; without a terminal, or with --json, nothing is removed unless --yes is given.

    \b
    Examples:
      wasmrt skills remove release-notes
      wasmrt skills remove release-notes --yes --json
    """
    store = _store()
    store.check_removable(name)
    if not yes:
        if as_json or not is_interactive():
            hint = f"say so if it is meant: wasmrt skills remove {quote(name)} --yes"
            raise ConfigurationError(f"{name} was not removed: nobody is here to ask", code="not-confirmed", hint=hint)
        if not click.confirm(f"Remove {name} and what was agreed to of it?", default=False, err=True):
            raise ConfigurationError(f"{name} was not removed", code="not-confirmed")
    store.remove(name)
    show_json({"removed": name}) if as_json else print_message(f"{name} is removed")


def _store() -> SkillStore:
    places = find_places()
    return SkillStore(places, read_config_file(places.config).skills.folders)


def _read(folder: Path) -> SkillFiles:
    try:
        return read_folder(folder.parent, folder.name)
    except OSError as error:
        raise SourceError(f"{folder.name!r} cannot be read ({error.strerror})", hint="check who owns it") from error


def _agree(shown: str, level: SkillTrust, *, yes: bool, as_json: bool) -> None:
    if not as_json:
        for line in shown.split("\n"):
            print_lines(f"  {printable(line)}")
    if yes:
        return
    asked = not as_json and is_interactive()
    question = "Keep it?" if level.foreign else "Trust it?"
    if not asked or not click.confirm(question, default=False, err=True):
        raise GrantRequiredError("nobody agreed to it, and nothing was changed", hint="look at it, and say --yes")


def _report(name: str, level: str, digest: str, *, as_json: bool) -> None:
    data: dict[str, Any] = {"name": name, "trust": level, "digest": digest}
    show_json(data) if as_json else print_message(f"{name} is kept, {level} ({digest[:12]})")
