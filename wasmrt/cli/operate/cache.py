"""`wasmrt cache`: show what the cache folder contains, and remove what is not in use."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from wasmrt.agent.config import read_config_file
from wasmrt.authoring.project import BuildFolder, build_folders, remove_build_folders, toolchains_dir
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import format_size, print_message, show_columns, show_json
from wasmrt.cli.shared.progress import status
from wasmrt.core.errors import WasmrtError
from wasmrt.core.files import folder_size
from wasmrt.core.places import find_places
from wasmrt.sandbox.guest.artifacts import remove_artifacts, stored_artifacts


@click.group(cls=CommandGroup)
def cache() -> None:
    """Show and remove compiled code and the folders of builds.

    Both are created again if they are needed, and have a maximum size, cache.max_compiled_bytes and
    cache.max_build_bytes; beyond it, the least recently used entries are removed.

    \b
    Examples:
      wasmrt cache show
      wasmrt cache prune --all
    """


@cache.command("show")
@json_option
def show(as_json: bool) -> None:
    """Show the sizes of the cache's parts and their maximum sizes.

    Example: wasmrt cache show --json
    """
    places = find_places()
    limits = read_config_file(places.config).cache
    with status("measuring the cache"):
        compiled, folders, homes = stored_artifacts(places.compiled), build_folders(), folder_size(places.mcp_homes)
    compiled_bytes, build_bytes = (sum(entry.size_bytes for entry in part) for part in (compiled, folders))
    if as_json:
        show_json({
            "folder": str(places.cache),
            "compiled": {"entries": len(compiled), "bytes": compiled_bytes, "max_bytes": limits.max_compiled_bytes},
            "builds": {
                "entries": [_describe(folder) for folder in folders],
                "bytes": build_bytes,
                "max_bytes": limits.max_build_bytes,
            },
            "mcp_homes": {"bytes": homes},
        })  # fmt: skip
        return
    rows = [
        ("compiled code", f"{len(compiled)}", compiled_bytes, limits.max_compiled_bytes, places.compiled),
        ("toolchains and builds", f"{len(folders)}", build_bytes, limits.max_build_bytes, toolchains_dir()),
        ("homes of MCP servers", "", homes, None, places.mcp_homes),
    ]
    show_columns(
        ("PART", "ENTRIES", "SIZE", "MAXIMUM", "FOLDER"),
        [
            (name, count, format_size(size), format_size(most) if most else "none", str(folder))
            for name, count, size, most, folder in rows
        ],
    )


@cache.command("prune")
@click.option("--all", "everything", is_flag=True, help="Remove all entries, not only those above the maximum sizes.")
@json_option
def prune(everything: bool, as_json: bool) -> None:
    """Remove compiled code and build folders, the least recently used first, down to the maximum sizes.

    Nothing that a running process uses is removed: running tools do not need the files any more, and while a build
    runs, the folders of builds are not changed. The home folders of MCP servers are never removed.

    \b
    Examples:
      wasmrt cache prune
      wasmrt cache prune --all --json
    """
    places = find_places()
    limits = read_config_file(places.config).cache
    try:
        with status("removing entries"):
            compiled = remove_artifacts(places.compiled, 0 if everything else limits.max_compiled_bytes)
            folders = remove_build_folders(0 if everything else limits.max_build_bytes)
    except OSError as error:
        hint = "check the owner and permissions of its folders"
        raise WasmrtError(f"cannot change the cache {places.cache} ({error.strerror})", hint=hint) from error
    if as_json:
        show_json({
            "compiled": {"removed": len(compiled), "bytes": sum(entry.size_bytes for entry in compiled)},
            "builds": {
                "removed": [_describe(folder) for folder in folders or ()],
                "bytes": sum(folder.size_bytes for folder in folders or ()),
                "build_running": folders is None,
            },
        })  # fmt: skip
        return
    size = sum(entry.size_bytes for entry in (*compiled, *(folders or ())))
    print_message(f"removed {len(compiled)} compiled, {len(folders or ())} of builds: {format_size(size)}")
    if folders is None:
        print_message("a build is running, so the folders of builds were not changed")
    elif not size:
        print_message("to remove everything: wasmrt cache prune --all")


def _describe(folder: BuildFolder) -> dict[str, object]:
    used = datetime.fromtimestamp(folder.used, UTC).isoformat(timespec="seconds")
    return {"path": str(folder.path), "bytes": folder.size_bytes, "used": used}
