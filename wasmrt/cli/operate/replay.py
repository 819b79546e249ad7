"""`wasmrt advanced replay`: repeat a recorded call without network access."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from wasmrt.capabilities import Capabilities
from wasmrt.catalog.bundled import RUN_CODE, bundled_component
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.cli.shared.receipts import folder_option, installation_keys, receipts_folder
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_named
from wasmrt.core.limits import CODE_LIMITS
from wasmrt.core.terminal import to_single_line
from wasmrt.runtime.audit import Recording, ReplayResult, read_recording
from wasmrt.runtime.audit.reading import find_receipt
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime


@click.command("replay")
@click.argument("call_id", metavar="CALL_ID")
@click.argument("tool", metavar="[NAME_OR_PATH]", required=False, shell_complete=complete_tools)
@folder_option
@json_option
def replay(call_id: str, tool: str | None, folder: Path | None, as_json: bool) -> int:
    """Repeat a recorded call, and compare the results.

    The command reports where the results first differ.

    Host responses, time and randomness come from the recording; network, files, secrets and other tools are not used.
    Calls are recorded if the configuration file sets record = true in [audit]. The tool is NAME_OR_PATH, or the
    installed tool of the recorded name. If the component has changed, the command prints a note and still replays it.

    Exit code 0: same result; 1: different result, or the recording does not match the call's receipt.

    \b
    Examples:
      wasmrt advanced replay 9de13d248339-1
      wasmrt advanced replay 9de13d248339-1 ./search.wasm --json
    """
    place = receipts_folder(folder)
    recording = read_recording(place, installation_keys(), call_id)
    receipt = find_receipt(place, call_id)
    authentic = receipt is not None and recording.is_of(receipt)
    with open_runtime() as runtime:
        prepared = _prepare(runtime, recording.call.component, tool)
        replayed = prepared.replay(recording)
    if as_json:
        show_json(replayed.as_dict() | {"authentic": authentic, "call_id": call_id})
    else:
        _print_result(recording, replayed)
        if not authentic:
            print_message("warning: the recording does not match the call's receipt; it was changed or replaced")
    return 0 if replayed.same and authentic else FAILED


def _prepare(runtime: WasmToolRuntime, component: str, tool: str | None) -> PreparedTool:
    """Prepare the tool without a grant, because the recording contains all host responses."""
    if tool is None and component == RUN_CODE.name:
        return runtime.prepare(component, bundled_component(RUN_CODE), limits=CODE_LIMITS)
    found = find_named(tool or component)
    bare = replace(Capabilities.none(), limits=found.grant.limits)
    return prepare(runtime, component, found.component, bare, tools=found.tools)


def _print_result(recording: Recording, replayed: ReplayResult) -> None:
    call = recording.call
    if replayed.same:
        show(f"same: {call.component} ended with {recording.outcome} after {replayed.answers} host responses")
    else:
        show(to_single_line(f"different: {replayed.difference}"))
    if replayed.component_changed:
        print_message(f"note: the component has changed since the call; its digest was {call.digest[:12]}")
