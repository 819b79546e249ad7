"""`wasmrt routines`: manage and run the routines of a user."""

from __future__ import annotations

from shlex import quote

import click

from wasmrt.agent.routines import RoutineStore, Run, describe_trigger
from wasmrt.cli.serve.routines_engine import open_engine, serve_routines
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import confirm_change, print_message, show, show_columns, show_json, show_json_list
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import store_place

_user_option = click.option("--user", default="local", show_default=True, help="The user whose routines are meant.")
_name_argument = click.argument("name")


@click.group("routines", cls=CommandGroup)
def routines() -> None:
    """Manage and run routines: prompts that run by themselves.

    An agent creates them with the tool routine_create. They run while `wasmrt routines serve` or an embedding program
    runs.

    \b
    Examples:
      wasmrt routines list
      wasmrt routines run report
      wasmrt routines serve
    """


@routines.command("list")
@_user_option
@json_option
def list_routines(user: str, as_json: bool) -> None:
    """List the routines with their next times and states.

    \b
    Examples:
      wasmrt routines list
      wasmrt routines list --json
    """
    found = _store().routines(user)
    if as_json:
        show_json_list(each.as_dict() for each in found)
        return
    if not found:
        print_message("no routines; an agent creates them with routine_create")
        return
    rows = [each.as_dict() for each in found]
    show_columns(
        ("NAME", "TRIGGER", "NEXT", "LAST", "RUNS", "STATE"),
        [
            (
                str(row["name"]), describe_trigger(routine.definition), row["next_fire_at"] or "-",
                row["last_run_at"] or "-", str(row["run_count"]), str(row["status"]),
            )
            for routine, row in zip(found, rows, strict=True)
        ],
    )  # fmt: skip


@routines.command("run")
@_name_argument
@_user_option
@json_option
def run(name: str, user: str, as_json: bool) -> int:
    """Run a routine now, and print its result.

    It needs the setting jobs.command. The cooldown does not apply.

    \b
    Examples:
      wasmrt routines run report
      wasmrt routines run report --json
    """
    _store().get(user, name)
    with open_engine() as engine:
        started = engine.run(user, name)
        engine.wait(started)
    ended = next(each for each in _store().history(user, name, 50) if each.id == started.id)
    _show_run(ended, as_json=as_json)
    return 1 if ended.state == "failed" else 0


@routines.command("pause")
@_name_argument
@_user_option
@json_option
def pause(name: str, user: str, as_json: bool) -> None:
    """Disable a routine: it does not run until it is resumed.

    \b
    Examples:
      wasmrt routines pause report
    """
    _set_enabled(name, user, enabled=False, as_json=as_json)


@routines.command("resume")
@_name_argument
@_user_option
@json_option
def resume(name: str, user: str, as_json: bool) -> None:
    """Enable a routine; times that passed meanwhile do not run.

    \b
    Examples:
      wasmrt routines resume report
    """
    _set_enabled(name, user, enabled=True, as_json=as_json)


@routines.command("remove")
@_name_argument
@_user_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(name: str, user: str, yes: bool, as_json: bool) -> None:
    """Delete a routine and its history.

    It asks for confirmation. Without a terminal, or with --json, --yes is required.

    \b
    Examples:
      wasmrt routines remove report
      wasmrt routines remove report --yes --json
    """
    store = _store()
    store.get(user, name)
    if not yes:
        command = f"wasmrt routines remove {quote(name)} --user {quote(user)}"
        confirm_change(
            f"Delete {name} and its history?", unchanged=f"{name} was not deleted", command=command, as_json=as_json
        )
    store.delete(user, name)
    show_json({"removed": name}) if as_json else print_message(f"deleted {name}")


@routines.command("serve")
@click.option("--http", "address", metavar="[HOST:]PORT", help="Also accept webhooks on this loopback address.")
@click.option("--json", "as_json", is_flag=True, help="Print each run that needs attention as a line of JSON.")
def serve(address: str | None, as_json: bool) -> int:
    """Run the routines of all users when they are due, until Ctrl-C.

    The setting jobs.command is the program that works on them, confined. Calls that require approval wait in the queue
    of `wasmrt approvals`.

    \b
    Examples:
      wasmrt routines serve
      wasmrt routines serve --http 127.0.0.1:8932
      wasmrt routines serve --json
    """
    return serve_routines(address, as_json=as_json)


def _store() -> RoutineStore:
    return RoutineStore(store_place(find_places().routines))


def _set_enabled(name: str, user: str, *, enabled: bool, as_json: bool) -> None:
    changed = _store().set_enabled(user, name, enabled=enabled)
    if as_json:
        show_json(changed.as_dict())
        return
    following = changed.as_dict()["next_fire_at"]
    print_message(
        f"{name} is {'enabled' if enabled else 'disabled'}" + (f"; next run: {following}" if following else "")
    )


def _show_run(ended: Run, *, as_json: bool) -> None:
    if as_json:
        show_json(ended.as_dict())
        return
    print_message(f"{ended.state} after {ended.as_dict()['duration_secs']:.1f} s")
    show(ended.summary)
