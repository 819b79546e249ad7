"""PluginTool: a native or WASI plugin as a tool."""

from __future__ import annotations

import time
import uuid
from typing import Any

from wasmrt.agent.builtin.plugins._manifest import PluginManifest
from wasmrt.agent.builtin.plugins._programs import NativeProgram, WasiProgram
from wasmrt.agent.builtin.plugins._protocol import Printed, Response, decode_response, encode_request
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.effects import READING, Effect
from wasmrt.core.errors import GuestError, NotAuthorizedError, ToolError
from wasmrt.core.limits import MAX_LOG_ENTRIES
from wasmrt.core.model import Decision, LogEntry, LogLevel, Reason, ToolOutput
from wasmrt.core.setting_commands import set_command
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.runtime.call import read_params, write_params
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.guest.call import cut_log
from wasmrt.sandbox.schema import Validator


class PluginTool(ToolDefaults):
    """A plugin. Thread-safe and concurrent."""

    ends_at_deadline = True
    """The program of the plugin is ended at the deadline, or when the call is cancelled."""

    def __init__(
        self, manifest: PluginManifest, source: bytes, program: NativeProgram | WasiProgram, *, network: bool
    ) -> None:
        self.manifest = manifest
        self._program = program
        self._network = network
        self._validator = Validator(manifest.schema)
        self.timeout_seconds = manifest.timeout_seconds
        self.digest = digest_of(source + b"\0" + program.digest.encode())
        """BLAKE3 of manifest and program, in hexadecimal: a change of either makes it a different tool."""
        self.grant_digest = digest_of(repr((tuple(program.mounts), network, sorted(self.effects))).encode())
        """BLAKE3 of the granted folders and network, in hexadecimal."""

    @property
    def name(self) -> str:
        """The plugin's name, which is also the name of its manifest file without the suffix."""
        return self.manifest.tool_name

    @property
    def description(self) -> str:
        """The description for models."""
        return printable_line(self.manifest.description)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the params."""
        return self.manifest.schema

    @property
    def kind(self) -> str:
        """`native` or `wasi`."""
        return self._program.kind

    @property
    def effects(self) -> frozenset[Effect]:
        """All possible effects of a call, derived from the grants and not from the manifest."""
        found = {Effect.READ_FILESYSTEM} if self._program.mounts else set()
        if self.kind == "native":
            # The kernel allows a native plugin to read and run the system's programs.
            found |= {Effect.READ_FILESYSTEM, Effect.SPAWN_PROCESS, Effect.EXECUTE_CODE}
        if any(not mount.read_only for mount in self._program.mounts):
            found |= {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM}
        if self.manifest.requires_network and self._network:
            found |= {Effect.NETWORK, Effect.EXTERNAL_WRITE}
        return frozenset(found)

    @property
    def traits(self) -> Traits:
        """The effects, and the traits derived from them. The sandbox can limit a WASI plugin to fewer effects."""
        return Traits(effects=self.effects, declared=True, enforced=self.kind == "wasi", reading=self.effects & READING)

    def __repr__(self) -> str:
        return f"<PluginTool {self.name!r}, {self.kind}, {self.digest[:12]}>"

    def execute(self, params: Any, context: ToolContext | None = None, user: str = "local") -> ToolOutput:
        """Run the plugin once and return its data: parsed if it is JSON, otherwise as text.

        The plugin does not receive the data of `context`, because the protocol has no field for this data.

        Raises:
            ToolError: the params are invalid, a grant is missing, or the plugin failed or exceeded a limit.
        """
        started = time.monotonic()
        request_id = uuid.uuid4().hex
        printed = Printed("")
        try:
            self._check_network()
            args = write_params(self._validator.accept(read_params(params)))
            request = encode_request(request_id, self.name, args, self._program.cwd, self._program.mounts)
            printed = self._program.run(request, context or ToolContext(user=user))
            response = _parse_response(printed, request_id)
        except ToolError as error:
            error.call_id = error.call_id or request_id
            error.logs = error.logs or _get_logs((LogLevel.WARN, printed.stderr))
            raise
        seconds = round(time.monotonic() - started, 6)
        usage = printed.usage._replace(
            wall_seconds=seconds, params_bytes=len(args), output_bytes=len(response.data_json)
        )
        logs = _get_logs(
            (LogLevel.INFO, response.stdout), (LogLevel.WARN, response.stderr), (LogLevel.WARN, printed.stderr)
        )
        return ToolOutput(
            result=response.data, raw=response.data_json, duration=seconds, usage=usage, logs=(*printed.logs, *logs),
            decisions=printed.decisions, call_id=request_id,
        )  # fmt: skip

    def _check_network(self) -> None:
        if not self.manifest.requires_network or self._network:
            return
        decision = Decision(
            allowed=False,
            reason=Reason.NETWORK_NOT_ALLOWED,
            rule="it requires the network, and the plugins were loaded without network access",
            hint=f"allow the network in the active preset: {set_command('presets.NAME.allow_network', True, 'NAME')}",
            capability="tool.network",
            subject=self.name,
        )
        raise NotAuthorizedError.of(decision)


def _parse_response(printed: Printed, request_id: str) -> Response:
    """Parse the response of a program that has exited.

    Raises:
        GuestError: the response reports a failure, or the program failed.
        GuestOutputError: the response is malformed.
    """
    try:
        response = decode_response(printed.stdout, request_id)
    except ToolError:
        if printed.failure is not None:
            raise printed.failure from None
        raise
    if not response.ok:
        message = printable_line(response.stderr.strip() or response.data_json.strip())
        raise GuestError(message or "the plugin failed without a message")
    if printed.failure is not None:
        raise printed.failure
    return response


def _get_logs(*texts: tuple[LogLevel, str]) -> tuple[LogEntry, ...]:
    now = time.time_ns() // 1_000_000
    lines = [(level, line) for level, text in texts for line in text.splitlines()]
    return tuple(LogEntry(level, cut_log(line), now) for level, line in lines[:MAX_LOG_ENTRIES])
