"""Run routines for `wasmrt routines`: open the engine, tick, and accept webhooks."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from wasmrt.agent.approvals import ApprovalStore, QueueApprover
from wasmrt.agent.config import read_config_file
from wasmrt.agent.jobs import SANDBOX, CommandRunner, Jobs
from wasmrt.agent.loading import load_registry, make_announcer
from wasmrt.agent.routines import Routine, RoutineEngine, RoutineStore, Run, RunState
from wasmrt.cli.serve.http import read_address
from wasmrt.cli.shared.output import print_message, show
from wasmrt.cli.shared.progress import status
from wasmrt.cli.shared.registry import print_problems, register_configured_servers
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.interop.pages import WEBHOOKS, RoutineWebhooks
from wasmrt.interop.web import WebServer
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import store_place


@contextmanager
def open_engine(*, as_json: bool = False) -> Iterator[RoutineEngine]:
    """Open an engine that runs routines with the setting `jobs.command`, and end its runs afterwards.

    Runs that need attention are printed on stderr, or as lines of JSON on stdout.

    SECURITY: no user is present, so calls that require approval wait in the queue, whatever approver is configured.

    Raises:
        ConfigurationError: the setting `jobs.command` is missing.
    """
    places = find_places()
    config = read_config_file(places.config)
    if not config.jobs.command:
        hint = f"set the program of an agent: {set_command('jobs.command', ['/usr/bin/agent'])}"
        raise ConfigurationError("no program is configured to run the routines", code="no-runner", hint=hint)
    modes = {SANDBOX: CommandRunner(config.jobs.command, config.jobs.as_shell_settings(config.shell))}
    with WasmToolRuntime(WasmRuntimeConfig.load()) as runtime:
        with status("preparing the tools"):
            store = ApprovalStore(store_place(places.approvals), announce=make_announcer(config.policy))
            registry = load_registry(runtime, approver=QueueApprover(store))
        with registry:
            register_configured_servers(registry)
            print_problems(registry.problems)
            with Jobs(registry, modes=modes, max_parallel=config.jobs.max_parallel) as jobs:
                engine = RoutineEngine(
                    RoutineStore(store_place(places.routines)),
                    registry,
                    jobs=jobs,
                    notify=_show_run if as_json else _notify,
                )
                try:
                    yield engine
                finally:
                    engine.close()


def serve_routines(address: str | None, *, as_json: bool) -> int:
    """Run routines until SIGINT or SIGTERM; with an address, accept webhooks there.

    Raises:
        ConfigurationError: the setting `jobs.command` is missing, or the address cannot be used.
    """
    with open_engine(as_json=as_json) as engine:
        return asyncio.run(_serve(engine, address))


async def _serve(engine: RoutineEngine, address: str | None) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        if address is not None:
            host, port = read_address(address)
            server = WebServer(RoutineWebhooks(engine, open_secrets()), host=host, port=port)
            await stack.enter_async_context(server)
            print_message(f"accepting webhooks at {server.url}{WEBHOOKS}ID")
        print_message("running routines when they are due; press Ctrl-C to stop")
        await asyncio.to_thread(engine.serve, stop)
    return 0


def _notify(routine: Routine, run: Run, state: RunState, summary: str) -> None:
    print_message(f"{routine.name}: {state}: {summary}")


def _show_run(routine: Routine, run: Run, state: RunState, summary: str) -> None:
    found: dict[str, str | None] = {
        "routine": routine.name,
        "user": routine.user,
        "run": run.id,
        "state": state,
        "summary": summary,
    }
    to = routine.definition
    found |= {"notify_channel": to.notify_channel or None, "notify_user": to.notify_user or None}
    show(json.dumps(found, ensure_ascii=False))
