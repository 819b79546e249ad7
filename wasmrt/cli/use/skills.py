"""`wasmrt skills`: manage skills, which are folders with a SKILL.md that agents read."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import click

from wasmrt.agent.builtin.skills import (
    SkillFiles,
    SkillStore,
    SkillTrust,
    check_findings,
    describe_new,
    read_folder,
    read_skill,
    scan,
)
from wasmrt.agent.config import read_config_file
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import (
    confirm_change,
    print_lines,
    print_message,
    require_consent,
    show_columns,
    show_json,
    show_json_list,
)
from wasmrt.core.errors import SourceError
from wasmrt.core.places import find_places
from wasmrt.core.terminal import printable
from wasmrt.egress.leaks import LeakDetector

_folder_argument = click.argument(
    "folder", type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True)
)


@click.group("skills", cls=CommandGroup)
def skills() -> None:
    """Manage skills: folders with instructions for models.

    A skill has a SKILL.md, and grants no permissions.

    \b
    Examples:
      wasmrt skills list
      wasmrt skills install ./release-notes
      wasmrt skills trust release-notes
    """


@skills.command("list")
@json_option
def list_skills(as_json: bool) -> None:
    """List the skills with their trust level and digest.

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
        print_message(f"no skills; add a folder to {find_places().skills}, or run: wasmrt skills install FOLDER")
        return
    show_columns(
        ("NAME", "TRUST", "DIGEST", "FOR"),
        [(str(r["name"]), str(r["trust"]), (r["digest"] or "")[:12], str(r["description"] or "")[:60]) for r in rows],
    )
    for row in rows:
        if row["problem"]:
            print_message(f"{row['name']} is not used: {row['problem']}" + (f"; {row['hint']}" if row["hint"] else ""))


@skills.command("check")
@_folder_argument
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Check the skill in FOLDER: report all errors in its SKILL.md, and text that needs review.

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
        values = {"name": skill.name, "digest": files.digest, "files": sorted(files.files)}
        show_json(values | {"findings": found, "notes": skill.notes})
        check_findings(skill.name, findings)
        return
    for note in skill.notes:
        print_message(f"note: {note}")
    for finding in findings:
        print_message(f"{'refused' if finding.refuses else 'review'}: {finding.path} {finding.what}")
    check_findings(skill.name, findings)
    print_message(f"{skill.name} is a valid skill ({files.digest[:12]})")


@skills.command("install")
@_folder_argument
@click.option("--trust", "trusted", is_flag=True, help="Trust its text like the user's own.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def install(folder: Path, trusted: bool, yes: bool, as_json: bool) -> None:
    """Store a copy of the skill in FOLDER, after you confirm.

    Without --trust, its text counts as untrusted.

    \b
    Examples:
      wasmrt skills install ./release-notes
      wasmrt skills install ./release-notes --trust --yes --json
    """
    store, files = _store(), _read(folder)
    level = SkillTrust.TRUSTED if trusted else SkillTrust.INSTALLED
    origin = f"the folder {folder.name}"
    _confirm(describe_new(folder.name, files, origin, LeakDetector(), level), level, yes=yes, as_json=as_json)
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
    help="With installed, its text counts as untrusted.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def trust(name: str, level: str, yes: bool, as_json: bool) -> None:
    """Show an installed skill, ask for confirmation, and set its trust level.

    \b
    Examples:
      wasmrt skills trust release-notes
      wasmrt skills trust release-notes --level installed --yes --json
    """
    store, given = _store(), SkillTrust(level)
    now = store.waiting(name)
    shown = describe_new(name, now.files, now.origin or "its folder", LeakDetector(), given)
    _confirm(shown, given, yes=yes, as_json=as_json)
    store.trust(name, now.digest, given)
    _report(name, level, now.digest, as_json=as_json)


@skills.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove an installed skill and its trust level.

    It asks for confirmation. Without a terminal, or with --json, --yes is required.

    \b
    Examples:
      wasmrt skills remove release-notes
      wasmrt skills remove release-notes --yes --json
    """
    store = _store()
    store.check_removable(name)
    if not yes:
        command, unchanged = f"wasmrt skills remove {quote(name)}", f"{name} was not removed"
        confirm_change(f"Remove {name} and its trust level?", unchanged=unchanged, command=command, as_json=as_json)
    store.remove(name)
    show_json({"removed": name}) if as_json else print_message(f"removed {name}")


def _store() -> SkillStore:
    places = find_places()
    return SkillStore(places, read_config_file(places.config).skills.folders)


def _read(folder: Path) -> SkillFiles:
    try:
        return read_folder(folder.parent, folder.name)
    except OSError as error:
        hint = "check its owner and permissions"
        raise SourceError(f"{folder.name!r} cannot be read ({error.strerror})", hint=hint) from error


def _confirm(shown: str, level: SkillTrust, *, yes: bool, as_json: bool) -> None:
    if not as_json:
        for line in shown.split("\n"):
            print_lines(f"  {printable(line)}")
    require_consent("Install it?" if level.foreign else "Trust it?", yes=yes, as_json=as_json)


def _report(name: str, level: str, digest: str, *, as_json: bool) -> None:
    data: dict[str, Any] = {"name": name, "trust": level, "digest": digest}
    show_json(data) if as_json else print_message(f"{name} is stored as {level} ({digest[:12]})")
