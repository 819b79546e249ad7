"""`wasmrt pack`: create an archive of a package."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.catalog.package import PACKAGE_FILE, FolderFiles, read_package_file
from wasmrt.catalog.package import pack as make_archive
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import SourceError
from wasmrt.core.files import replace_file


@click.command("pack")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=Path())
@click.option(
    "--to", type=click.Path(path_type=Path), metavar="FILE", help="Archive to write (default: NAME-VERSION.zip)."
)
@json_option
def pack(folder: Path, to: Path | None, as_json: bool) -> None:
    """Create an archive of the package in DIR.

    The archive contains its wasmrt.toml and the files listed there.

    The same files always produce the same archive. The archive contains the digest of every file, and an install checks
    these digests.

    \b
    Examples:
      wasmrt pack
      wasmrt pack weather --to weather.zip
    """
    if not folder.is_dir():
        raise SourceError(f"{folder.name!r} is not a folder", hint="pass the folder that contains the wasmrt.toml")
    name, data = make_archive(FolderFiles(folder))
    if "language" in read_package_file((folder / PACKAGE_FILE).read_bytes()).values:
        from wasmrt.authoring.project import is_stale, open_project  # loads the build modules

        if is_stale(open_project(folder)):
            print_message("warning: the source has changed since the last build; to rebuild, run: wasmrt build")
    target = to or Path(name)
    try:
        replace_file(target, data, mode=0o644)
    except OSError as error:
        raise SourceError(
            f"{target.name!r} cannot be written ({error.strerror})", hint="choose another path with --to"
        ) from error
    if as_json:
        show_json({"archive": target.name, "digest": digest_of(data), "size_bytes": len(data)})
        return
    print_message(f"packed {target.name} ({len(data):,} bytes, {digest_of(data)[:12]})")
    print_message(f"next: wasmrt inspect {target.as_posix()}, or wasmrt install {target.as_posix()}")
