"""`WasmToolRuntime`: prepares tools and runs their calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from wasmrt.capabilities import Capabilities
from wasmrt.catalog.bundled import WEB_SEARCH, bundled_names
from wasmrt.catalog.find import find_tool
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import (
    ComponentError,
    ConfigurationError,
    InstallError,
    LimitError,
    NotInstalledError,
    RuntimeClosedError,
    SourceError,
    WasmrtError,
)
from wasmrt.core.files import open_file
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import COMPONENT_MAX_BYTES, ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.core.names import check_prepared_name, did_you_mean, offered_name
from wasmrt.core.places import find_places
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.call import (
    Backends,
    Call,
    CallPipeline,
    CallRequest,
    CallTarget,
    CallTasks,
    CallThreads,
    LoopCall,
    ThreadCall,
    ToolRunner,
    open_admission,
)
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.parts import make_leak_detector, may_block, open_guest_home, open_receipt_writer
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.stores import open_catalog
from wasmrt.sandbox.component import ToolSpec, check_header
from wasmrt.sandbox.guest.clock import LogicalClock, SystemClock

if TYPE_CHECKING:
    from concurrent.futures import Future

    from wasmrt.egress.gateway import EgressGateway
    from wasmrt.runtime.backends import BackendFactory
    from wasmrt.sandbox.schema.providers import Provider

CLOSE_SECONDS = 5.0
"""Maximum time for which `close` waits for calls to end. Guests stop within a tick; a name lookup may take longer."""


class WasmToolRuntime:
    """Runs untrusted tools in a sandbox. Each tool is compiled once, and every call runs in a fresh store.

    Use it as a context manager, or `close` it. Closing ends every running call with a `RuntimeClosedError`.

    Raises:
            ConfigurationError: a leak rule is invalid, an override names an unknown rule, or this machine cannot run
                `max_concurrent_calls`.

    Examples:
        >>> from wasmrt import WasmToolRuntime
        >>> with WasmToolRuntime() as runtime:
        ...     echo = runtime.prepare_installed("echo")
        ...     print(echo.execute({"message": "hi"}).result)
        hi
    """

    def __init__(self, config: WasmRuntimeConfig | None = None) -> None:
        self.config = config or WasmRuntimeConfig()
        self.detector = make_leak_detector(self.config)
        self._receipts = open_receipt_writer(self.config)
        self._rates = rates = RateLimiter(
            redis_url=self.config.rate_limit_storage,
            unsafe_without_redis=self.config.unsafe_rate_limits_without_redis,
        )
        self._factory: BackendFactory | None = None
        self.pipeline = CallPipeline(
            admission=open_admission(self.config.max_concurrent_calls, self.config.isolation),
            rates=rates,
            clock=LogicalClock if self.config.deterministic else SystemClock,
            audit=self._choose_receipt_sink(),
            rate=self.config.call_rate_limit,
            hashed=None if self._receipts is None else self._receipts.hashed,
            recorder=self._receipts.recorder() if self._receipts is not None and self.config.audit_record else None,
        )
        self._threads = CallThreads(self.pipeline.admission)
        self._tasks = CallTasks(self.pipeline.admission)
        self._may_block = may_block(self.config)
        self._tools = ToolRunner(self._run_by_name, rates)
        self._guests = open_guest_home(self.config)  # must be last, because it starts a process
        self._prepared: dict[str, PreparedTool] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.closed = False
        self.problems: dict[str, WasmrtError] = {}
        """The tools that `installed` skipped, with the reasons."""

    def prepare(
        self,
        name: str,
        component: ComponentBytes | bytes | bytearray | memoryview | str | Path,
        capabilities: Capabilities | None = None,
        limits: ResourceLimits | None = None,
        *,
        tools: Sequence[ToolSpec] | None = None,
        request: Callable[[], Capabilities] | None = None,
    ) -> PreparedTool:
        """Compile a component, or load it from the cache, and prepare its tools.

        `component` is the bytes, with or without their digest, or a path. `capabilities` is the grant; by default,
        nothing is granted. `limits` defaults to the grant's limits, then the runtime's. Other tools of this runtime can
        invoke the tool if their grants have an alias for `name`, or for `name.TOOL` if the component has several tools.
        `tools` are the tools declared by the component's package; they replace the tools that the component describes.
        `request` returns the capabilities that the tool requests; with it, denials explain what was requested but not
        granted.

        Raises:
            ComponentError: the bytes are not a component that can run; the subclass gives the reason.
            MemoryLimitError: the component needs more memory to start than the limits allow.
            InvalidNameError, SourceError, RuntimeClosedError: the name is invalid, the file cannot be read, or the
                runtime is closed.
        """
        self.check_open()
        check_prepared_name(name)
        data, digest = _load_component(component)
        grant = capabilities or Capabilities.none()
        chosen = limits or grant.limits.over(self._get_default_limits())
        guest = self._guests.load(name, data, digest, chosen)
        named = None if tools is None else {spec.name: spec for spec in tools}
        tool = PreparedTool(
            self, CallTarget(name, digest, guest, grant, self._make_backends, named, request), len(data)
        )
        with self._lock:
            self._prepared[name] = tool
        return tool

    def prepare_installed(self, name: str) -> PreparedTool:
        """Prepare an installed tool with its stored grant, or a bundled tool without a grant.

        Raises:
            NotInstalledError: there is no such tool, or it is `web_search` and no provider is configured.
            IntegrityError: the stored bytes differ from the installed ones.
            ComponentError, RuntimeClosedError: see `prepare`.
        """
        config = self.config
        found = find_tool(
            name, open_catalog(find_places().data), search=config.web_search, robots_txt=config.robots_txt
        )
        tool = self.prepare(name, found.component, found.grant, tools=found.tools, request=found.request)
        tool.offer = found.offer
        return tool

    def installed(self) -> tuple[PreparedTool, ...]:
        """Prepare every installed and bundled tool; return each tool of a component separately.

        Tools that cannot be prepared are skipped; `problems` contains the reason for each of them.

        Raises:
            InstallError, RuntimeClosedError: the catalog cannot be read, or the runtime is closed.
        """
        self.check_open()
        found: list[PreparedTool] = []
        self.problems = {}
        usable = (name for name in bundled_names() if name != WEB_SEARCH or self.config.web_search is not None)
        for name in sorted({*(tool.name for tool in open_catalog(find_places().data).tools()), *usable}):
            try:
                found += self.prepare_installed(name).offered
            except (ComponentError, InstallError, LimitError) as error:
                self.problems[name] = error
        return tuple(found)

    def definitions(self, provider: Provider) -> list[dict[str, Any]]:
        """Return the definitions of all tools that `installed` returns, in a provider's format.

        To get the tool of a definition, pass the definition's name to `tool`.

        Raises:
            ConfigurationError: the provider is not known, or two tools would have the same name.
            InstallError, RuntimeClosedError: see `installed`.
        """
        declared: dict[str, PreparedTool] = {}
        for tool in self.installed():
            name = offered_name(tool.name)
            if (other := declared.setdefault(name, tool)) is not tool:
                raise ConfigurationError(
                    f"{other.name} and {tool.name} would both be offered to models as {name}",
                    hint="install one of them under a different name: wasmrt install SOURCE --name NAME",
                )
        return [tool.definition(provider) for tool in declared.values()]

    def tool(self, name: str) -> PreparedTool:
        """Return a prepared tool by its own name, or by the name offered to models.

        Raises:
            NotInstalledError: no tool is prepared under that name, or several tools are offered under it.
        """
        if (own := self.prepared(name)) is not None:
            return own
        with self._lock:
            known = {tool.name: tool for prepared in self._prepared.values() for tool in prepared.offered}
        meant = [tool for tool in known.values() if offered_name(tool.name) == name]
        if len(meant) == 1:
            return meant[0]
        if meant:
            hint = f"use one of these names: {' or '.join(tool.name for tool in meant)}"
            raise NotInstalledError(f"several prepared tools are offered as {name!r:.80}", hint=hint)
        near = did_you_mean(name, known)
        hint = f"did you mean {near}?" if near else "prepare it first with prepare, prepare_installed or installed"
        raise NotInstalledError(f"no tool named {name!r:.80} is prepared", hint=hint)

    def open_gateway(self) -> EgressGateway:
        """Return an egress gateway with this runtime's network settings and rate limits; close it after use.

        Raises:
            ConfigurationError: the operator's CA file cannot be used.
        """
        from wasmrt.egress.gateway import EgressGateway

        return EgressGateway(self.config.network, rates=self._rates)

    def check_open(self) -> None:
        """Check that the runtime can be used in this process.

        Raises:
            RuntimeClosedError: the runtime is closed, or was created before this process was forked.
        """
        if self.closed:
            raise RuntimeClosedError("the runtime is closed", hint="create a new WasmToolRuntime")
        if self._process != os.getpid():
            raise RuntimeClosedError(
                "the runtime was created before this process was forked, and its threads exist only in the parent",
                hint="create the first WasmToolRuntime after forking, or start processes with spawn",
            )

    def forget(self, name: str) -> None:
        """Stop other tools from invoking `name`; the PreparedTool itself can still be called."""
        with self._lock:
            self._prepared.pop(name, None)

    def close(self) -> None:
        """End every call with a `RuntimeClosedError`, and release threads, connections and compiled code.

        In a forked child, do nothing, because threads and locks belong to the parent.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if self.closed:
                return
            self.closed = True
        self.pipeline.admission.close()
        self._tasks.finish(CLOSE_SECONDS)
        self.pipeline.admission.wait_idle(CLOSE_SECONDS)
        self._threads.close()
        if self._factory is not None:
            self._factory.close()
        try:
            if self._receipts is not None:
                self._receipts.close()
        finally:
            self._guests.close()

    def __enter__(self) -> WasmToolRuntime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> WasmToolRuntime:
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio  # already imported in programs that await

        await asyncio.to_thread(self.close)  # waits for worker processes to end

    def _choose_receipt_sink(self) -> Callable[[Receipt], None] | None:
        sink = self.config.audit
        if sink is None or isinstance(sink, Path):
            return self._receipts
        return lambda receipt: sink(receipt.as_dict())  # type: ignore[operator]  # a str was converted to a Path

    def _get_default_limits(self) -> ResourceLimits:
        fuel = self.config.fuel_config.limit
        return self.config.default_limits if fuel is None else replace(self.config.default_limits, fuel=fuel)

    def _make_backends(self, grant: Capabilities) -> Backends:
        if grant == Capabilities.none():
            network = self.config.network
            return Backends(self.detector, networks=() if network is None else network.networks)
        from wasmrt.runtime.backends import BackendFactory  # imports the network and secrets

        with self._lock:
            if self._factory is None:
                self._factory = BackendFactory(self.config, self._rates)
        return self._factory.make(grant, self.detector, self._tools)

    def prepared(self, name: str) -> PreparedTool | None:
        """Return the prepared tool to which grants refer as `name`, or None. `NAME.TOOL` is one tool of several."""
        with self._lock:
            tool, (component, _, part) = self._prepared.get(name), name.partition(".")
            several = self._prepared.get(component) if part else None
        if tool is None and several is not None and any(spec.name == part for spec in several.tools):
            tool = several.tool(part)
        return tool

    def _run_by_name(self, name: str, params: str, caller: Call) -> ToolOutput | None:
        tool = self.prepared(name)
        return None if tool is None else tool.invoke(params, caller)

    def submit(
        self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, limits: ResourceLimits
    ) -> tuple[Lifetime, Future[ToolOutput]]:
        """Run a call on a thread of the runtime, for `aexecute` and batches; return its lifetime, which has begun.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        self.check_open()
        return self._threads.submit(run, request, limits)

    def start(self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, target: CallTarget) -> LoopCall:
        """Start a call for `aexecute`.

        The call shares the thread of the event loop, except if it may block it: then it runs on another thread.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        import asyncio  # already imported in programs that await; it takes a third of the start of other programs

        self.check_open()
        if self._may_block or target.may_block or request.context.has_callbacks:
            lifetime, future = self._threads.submit(run, request, target.limits)
            return ThreadCall(lifetime, asyncio.wrap_future(future))
        return self._tasks.submit(run, request, target.limits)


def _load_component(component: ComponentBytes | bytes | bytearray | memoryview | str | Path) -> tuple[bytes, str]:
    """Return the bytes of a component with a valid header, and their digest."""
    if not isinstance(component, ComponentBytes):
        # Copy mutable input, so that the bytes cannot change between the check and the run.
        data = _read_component_file(Path(component)) if isinstance(component, (str, os.PathLike)) else bytes(component)
        check_header(data)  # must be done before hashing, because it limits the size
        component = ComponentBytes(data)
    check_header(component.data)
    return component.data, component.digest


def _read_component_file(path: Path) -> bytes:
    try:
        with open_file(path, follow_link=True) as (file, _):
            return file.read(COMPONENT_MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"cannot read component {path.name} ({error.strerror})", hint="check the path") from error
