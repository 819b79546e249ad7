"""`wasmrt replay`: a recorded call run again, without network."""

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
from wasmrt.core.terminal import in_one_line
from wasmrt.runtime.audit import Recording, Replayed, read_recording
from wasmrt.runtime.audit.reading import find_receipt
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime


@click.command("replay")
@click.argument("call_id", metavar="CALL_ID")
@click.argument("tool", metavar="[NAME_OR_PATH]", required=False, shell_complete=complete_tools)
@folder_option
@json_option
def replay(call_id: str, tool: str | None, folder: Path | None, as_json: bool) -> int:
    """Run a recorded call again and say whether the result is the same, and where it first differs.

    Host answers, time and randomness come from the recording; network, files, secrets and other tools are not touched.
    Calls are recorded with record = true below [audit] in the configuration file. The tool is the one that is installed
    now under the recorded name, or NAME_OR_PATH: one that has changed since is said so, and replayed all the same.

    Exit code 0: the same; 1: not the same, or the recording is not the one that the call's receipt names.

    \b
    Examples:
      wasmrt replay 9de13d248339-1
      wasmrt replay 9de13d248339-1 ./search.wasm --json
    """
    place = receipts_folder(folder)
    recording = read_recording(place, installation_keys(), call_id)
    receipt = find_receipt(place, call_id)
    authentic = receipt is not None and recording.is_of(receipt)
    with open_runtime() as runtime:
        prepared = _prepared(runtime, recording.call.component, tool)
        replayed = prepared.replay(recording)
    if as_json:
        show_json(replayed.as_dict() | {"authentic": authentic, "call_id": call_id})
    else:
        _in_words(recording, replayed)
        if not authentic:
            print_message("warning: the recording is not as the call's receipt has it: it was changed, or is another's")
    return 0 if replayed.same and authentic else FAILED


def _prepared(runtime: WasmToolRuntime, component: str, tool: str | None) -> PreparedTool:
    """Return the tool to replay with. Nothing is granted: all that the guest gets is in the recording."""
    if tool is None and component == RUN_CODE.name:
        return runtime.prepare(component, bundled_component(RUN_CODE), limits=CODE_LIMITS)
    found = find_named(tool or component)
    bare = replace(Capabilities.none(), limits=found.grant.limits)
    return prepare(runtime, component, found.component, bare, tools=found.tools)


def _in_words(recording: Recording, replayed: Replayed) -> None:
    known = recording.call
    if replayed.same:
        show(f"the same: {known.component} ended with {recording.outcome} after {replayed.answers} answers of the host")
    else:
        show(in_one_line(f"not the same: {replayed.difference}"))
    if replayed.component_changed:
        print_message(f"the component has changed since: the call was of {known.digest[:12]}")
