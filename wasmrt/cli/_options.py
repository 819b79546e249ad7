"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

capability_file_argument = click.argument("file", type=click.Path(path_type=Path))
subject_argument = click.argument("subject", metavar="FILE_OR_TOOL")
json_option = click.option("--json", "as_json", is_flag=True, help="Print data as JSON, errors too (on stderr).")
user_option = click.option("--user", default="local", show_default=True, help="Whose secret it is.")
workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder that granted workspace prefixes are below.",
)
