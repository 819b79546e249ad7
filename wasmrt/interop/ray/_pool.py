"""`RayPool`: actors on the nodes of a Ray cluster, and the connection to the cluster."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import ConfigurationError, ExternalServiceError, WasmrtError
from wasmrt.interop.ray._actor import RayTool, SentTool, ToolActor, ToolFacts, load_runtime
from wasmrt.interop.ray._calls import START_SECONDS, RunningBatch
from wasmrt.runtime.call import BatchResult

if TYPE_CHECKING:
    from wasmrt.runtime.runtime import WasmToolRuntime

_CLOSE_SECONDS = 10.0


class RayPool:
    """Runs many calls of tools on the nodes of a Ray cluster. Use it as a context manager, or `close` it.

    Each actor has its own runtime, worker processes and receipt chain. When a node dies, Ray starts its actors on
    another node. The pool connects to a cluster that is running; it starts none.

    SECURITY: who can connect to a cluster can run any code on its nodes. Ray's processes listen on all addresses of a
    machine, so the pool requires Ray's token authentication.

    Args:
        tools: The tools: `RayTool`s, or names of tools that are installed on this machine.
        address: The address of the cluster's head, such as `10.0.0.1:6379`.
        actors: The number of actors.
        calls_per_actor: The number of calls, or groups of calls, that an actor runs at a time.
        make_runtime: Creates the runtime of an actor, on its node; by default with the settings and secrets of the
            node's user.
        actor_options: Options for Ray, such as `num_cpus` and `resources`.
        unsafe_without_token: Accept a cluster without token authentication.

    Raises:
        ConfigurationError: Ray is not installed, the cluster cannot be reached, announces other addresses than
            `address`, or uses no tokens, or a number is out of range.
        ExternalServiceError: no actor started in time.
        WasmrtError: an actor cannot prepare a tool.

    Examples:
        >>> from wasmrt import RayPool
        >>> with RayPool(["echo"], address="10.0.0.1:6379", actors=8) as pool:
        ...     for place, output, error in pool.execute_many("echo", ({"message": str(i)} for i in range(10_000))):
        ...         print(place, error or output.result)
    """

    def __init__(
        self,
        tools: Sequence[RayTool | str],
        *,
        address: str,
        actors: int,
        calls_per_actor: int = 8,
        make_runtime: Callable[[], WasmToolRuntime] = load_runtime,
        actor_options: Mapping[str, Any] | None = None,
        unsafe_without_token: bool = False,
    ) -> None:
        for name, number in (("actors", actors), ("calls_per_actor", calls_per_actor)):
            if number < 1:
                raise ConfigurationError(f"{name} must be a positive whole number, got {number!r}")
        self._calls_per_actor = calls_per_actor
        self._facts: dict[str, ToolFacts] = {}
        self._actors: list[Any] = []
        self._ray = ray = _import_ray()
        self._connected = _connect(ray, address)
        try:
            _check_cluster(ray, address, unsafe_without_token)
            self._sent = sent = [
                _send(ray, RayTool.installed(tool) if isinstance(tool, str) else tool) for tool in tools
            ]
            # Kept, because actors that start again read the components through these references.
            options = {"max_restarts": -1, "scheduling_strategy": "SPREAD", **(actor_options or {})}
            kind = ray.remote(ToolActor).options(max_concurrency=calls_per_actor + 1, **options)
            self._actors = [kind.remote(make_runtime, sent, ray.get) for _ in range(actors)]
            for tool in sent:
                self._facts[tool.tool.name] = self._describe(tool.tool.name)
        except BaseException:
            self.close()
            raise

    def execute_many(
        self,
        name: str,
        batch: Iterable[Any],
        context: Any = None,
        user: str = "local",
        *,
        ordered: bool = True,
        idempotent: bool = False,
    ) -> Iterator[BatchResult]:
        """Run a tool once for each item of `batch` and yield the result of each call, as `PreparedTool.execute_many`.

        Items are read when an actor has room for them. If an actor dies during a call, the call runs again, at most
        three times, if the tool's effects are reading or `idempotent` says that repeating it changes nothing more.
        Any other call ends with the code `outcome-unknown`: it may have had its effects. Calls that run when the
        iteration ends early are not cancelled.

        Raises:
            NotInstalledError: no tool has this name.
        """
        facts = self._facts.get(name) or self._describe(name)
        self._facts[name] = facts
        run = RunningBatch(
            self._ray, self._actors, self._calls_per_actor, (name, context, user), facts, batch,
            ordered=ordered, repeatable=facts.reads_only or idempotent,
        )  # fmt: skip
        return run.results()

    def close(self) -> None:
        """Close the runtimes of the actors, end the actors, and disconnect if the pool made the connection."""
        ray = self._ray
        if not ray.is_initialized():
            return
        closing = [actor.close.remote() for actor in self._actors]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        if self._connected:
            ray.shutdown()

    def __enter__(self) -> RayPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _describe(self, name: str) -> ToolFacts:
        ray = self._ray
        answers = [actor.describe.remote(name) for actor in self._actors]
        ready, _ = ray.wait(answers, num_returns=1, timeout=START_SECONDS)
        if not ready:
            raise ExternalServiceError(
                f"no actor started within {START_SECONDS:.0f} s",
                hint="compare the resources that the nodes have (ray status) with actor_options",
            )
        try:
            facts = ray.get(ready[0])
        except ray.exceptions.RayTaskError:
            raise  # a fault of the actor's code
        except ray.exceptions.RayError as error:
            raise ExternalServiceError(
                f"an actor cannot start ({type(error).__name__})", hint="read its log on the node: ray logs actor"
            ) from error
        if isinstance(facts, WasmrtError):
            raise facts
        return ToolFacts(*facts)


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "bulk calls on a cluster need Ray, which is not installed", code="missing-extra",
            hint="pip install 'wasmrt[ray]'",
        ) from error  # fmt: skip
    return ray


def _send(ray: Any, tool: RayTool) -> SentTool:
    return SentTool(replace(tool, component=ComponentBytes(b"")), tool.component.digest, ray.put(tool.component.data))


def _connect(ray: Any, address: str) -> bool:
    """Connect to the cluster, and return False if this process was connected before."""
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host)
        int(port)
    except ValueError as error:
        raise ConfigurationError(
            f"address must be an IP address and a port, got {address!r:.80}", hint="for example 10.0.0.1:6379"
        ) from error
    if ray.is_initialized():
        return False
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"cannot connect to the Ray cluster at {address}",
            hint="check that `ray status` works there, and that this process has the cluster's token (RAY_AUTH_TOKEN)",
        ) from error
    return True


def _check_cluster(ray: Any, address: str, unsafe_without_token: bool) -> None:
    """Check that the head announces the named address, and that tokens are on.

    Ray can announce an address other than the one that `ray start --node-ip-address` named. Then nodes and actors
    would connect over another network.
    """
    named = address.rpartition(":")[0]
    announced = sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])
    if named not in announced:
        raise ConfigurationError(
            f"the cluster at {address} announces other addresses: {', '.join(announced[:10])}",
            hint=f"start its head with: ray start --head --node-ip-address={named}",
        )
    # Ray sets this variable itself when it finds a token file.
    if os.environ.get("RAY_AUTH_MODE") != "token" and not unsafe_without_token:
        raise ConfigurationError(
            "the Ray cluster does not require a token, so that everyone who reaches it can run code on its nodes",
            hint="set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN on each node and here, then start the cluster again",
        )
