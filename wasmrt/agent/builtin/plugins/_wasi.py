"""WASI plugins: `wasi:cli/command` components, in the same sandbox as any other component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wasmrt.agent.builtin.plugins._manifest import PluginManifest
from wasmrt.agent.builtin.plugins._protocol import Mount, Printed, exit_failure
from wasmrt.core.errors import DeadlineExceededError, OutputLimitError, UnknownWorldError
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.sandbox.component import worlds

WORKSPACE = "/workspace"


class WasiProgram:
    """The prepared component of a WASI plugin.

    Raises:
        UnknownWorldError: it is no program.
    """

    kind = "wasi"

    def __init__(
        self, tool: PreparedTool, manifest: PluginManifest, *, has_workspace: bool, writable: Mapping[str, str]
    ) -> None:
        if worlds.exported_program([tool.world]) is None:
            raise UnknownWorldError(
                "the plugin's component is not a program: it does not export wasi:cli/run",
                hint="build it as a program, for wasm32-wasip2",
            )
        self._tool = tool
        self._manifest = manifest
        # SECURITY: a guest receives no host paths; it is given the guest path instead.
        read = (Mount(WORKSPACE, WORKSPACE, read_only=True),) if has_workspace else ()
        self.mounts = (*read, *(Mount(name, name, read_only=False) for name in writable))
        self._folders = {"workspace": WORKSPACE, "writable": dict(writable)}
        self.cwd = WORKSPACE
        self.digest = tool.digest

    def run(self, request: bytes, context: ToolContext) -> Printed:
        """Run it once with a request on its standard input, within the lifetime of the context.

        Raises:
            ToolError: it trapped, or is over a bound.
        """
        params = {"stdin": request.decode(), "check": False}
        try:
            output = self._tool.execute(params, replace(context, data=self._folders, on_begin=None))
        except (DeadlineExceededError, OutputLimitError) as error:
            # The limits of this call come from the manifest.
            error.setting = "max_runtime_ms" if isinstance(error, DeadlineExceededError) else "max_stdout_bytes"
            error.hint = f"if necessary, raise {error.setting} in its manifest"
            raise
        stdout, stderr = output.result["stdout"], output.result["stderr"]
        for name, text in (("max_stdout_bytes", stdout), ("max_stderr_bytes", stderr)):
            cap: int = getattr(self._manifest, name)
            if (size := len(text.encode())) > cap:
                raise OutputLimitError(
                    f"the plugin's output of {size:,} bytes is over its {name} of {cap:,}",
                    limit=cap, used=size, setting=name,
                    hint=f"if necessary, raise {name} in its manifest",
                )  # fmt: skip
        return Printed(
            stdout,
            stderr,
            exit_failure(output.result["exit_code"], stderr),
            output.usage,
            output.logs,
            output.decisions,
        )
