"""The registry of an installation: its tools, its approver, and unavailable tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.first_party.names import COMPONENTS, SHIPPED
from tests.agent.plugins.conftest import ANSWER, MANIFEST, confined  # noqa: F401  a fixture
from wasmrt import (
    CallbackApprover,
    ConfirmationTokens,
    DenyApprover,
    QueueApprover,
    TerminalApprover,
    ToolRegistry,
    ToolSource,
    WasmRuntimeConfig,
    WasmToolRuntime,
    load_registry,
    tool,
)
from wasmrt.agent.approvals import ApprovalStore, params_digest
from wasmrt.agent.loading import make_approver
from wasmrt.agent.policy import ApproverKind
from wasmrt.catalog.bundled import HOST_TOOLS
from wasmrt.core.errors import ConfigurationError, NotAuthorizedError
from wasmrt.core.places import find_places


@pytest.fixture
def runtime() -> Iterator[WasmToolRuntime]:
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime:
        yield runtime


def configure(text: str) -> None:
    path = find_places().config
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_bundled_tools_are_built_in_tools(runtime: WasmToolRuntime) -> None:
    with load_registry(runtime) as registry:
        assert registry.tool_names() == SHIPPED
        assert registry.group("memory") == sorted(HOST_TOOLS)
        assert registry.group("bundled") == COMPONENTS
        assert registry.source("echo") is ToolSource.BUILTIN
        assert registry.warnings() == ()


@pytest.mark.usefixtures("confined")
def test_plugins_are_loaded_and_unusable_plugins_are_reported(
    runtime: WasmToolRuntime,
) -> None:
    configure(
        '[tools]\nplugin_dir = "plugins"\nunsafe_native_plugins = true\n[tools.filter]\nallow_external = true\n'
        '[tools.rules.shout]\npermission = "allow"\n'
    )
    folder = find_places().data / "plugins"
    folder.mkdir()
    (folder / "shout.toml").write_text(MANIFEST.format(name="shout", more="native = true\n"))
    (folder / "shout").write_text(ANSWER + "answer(text.upper())\n")
    (folder / "shout").chmod(0o755)
    (folder / "broken.toml").write_text("tool_name = 1\n")
    with load_registry(runtime) as registry:
        assert registry.execute("shout", {"text": "hi"}).result == "HI"
        assert list(registry.problems) == ["broken"]


def test_native_plugins_require_permission(runtime: WasmToolRuntime) -> None:
    configure('[tools]\nplugin_dir = "plugins"\n')
    folder = find_places().data / "plugins"
    folder.mkdir()
    (folder / "shout.toml").write_text(MANIFEST.format(name="shout", more="native = true\n"))
    (folder / "shout").write_text(ANSWER)
    with load_registry(runtime) as registry:
        assert "native" in registry.problems["shout"].message
        assert "shout" not in registry.all_names()


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (ApproverKind.QUEUE, QueueApprover),
        (ApproverKind.TERMINAL, TerminalApprover),
        (ApproverKind.DENY, DenyApprover),
        (ApproverKind.AUTO, DenyApprover),
    ],
)
def test_the_configuration_selects_the_approver(tmp_path: Path, kind: ApproverKind, made: type) -> None:
    assert isinstance(make_approver(kind, ApprovalStore(tmp_path / "approvals.sqlite3")), made)


def test_a_registry_without_a_runtime_cannot_prepare_tools() -> None:
    with pytest.raises(ConfigurationError):
        ToolRegistry().add_installed()


def test_a_program_creates_a_registry_with_chosen_services(runtime: WasmToolRuntime) -> None:
    registry = ToolRegistry(runtime)
    assert registry.add_installed() == []
    with pytest.raises(ConfigurationError):
        ToolRegistry(approver=DenyApprover(), approvals=registry._services.approvals)
    with pytest.raises(ConfigurationError) as caught:
        registry.register(lambda: None)  # type: ignore[arg-type]
    assert caught.value.hint == "put @tool above the function"
    with pytest.raises(ConfigurationError, match="is not a tool"):
        registry.register("echo")  # type: ignore[arg-type]


# -- confirmation tokens -----------------------------------------------------------------------------------------------


@pytest.fixture
def tokens(tmp_path: Path) -> ConfirmationTokens:
    return ConfirmationTokens(tmp_path / "tokens.sqlite3", tmp_path / "tokens.key")


Asked = list[str]


@pytest.fixture
def asking(tokens: ConfirmationTokens) -> Callable[[], tuple[ToolRegistry, Asked]]:
    def make() -> tuple[ToolRegistry, Asked]:
        asked: Asked = []
        registry = ToolRegistry(tokens=tokens, approver=CallbackApprover(lambda each: asked.append(each.tool) or False))

        @tool(effects=["write-filesystem"])
        def write(name: str) -> str:
            """Write."""
            return name

        registry.register(write)
        return registry, asked

    return make


def test_a_token_replaces_one_approval(
    tokens: ConfirmationTokens, asking: Callable[[], tuple[ToolRegistry, Asked]]
) -> None:
    registry, asked = asking()
    token = tokens.issue(
        trace="t", tools=["write"], scopes=["write-filesystem"], params_digest=params_digest({"name": "a"}),
        ttl_seconds=60,
    )  # fmt: skip
    output = registry.execute("write", {"name": "a"}, trace="t", token=token)
    assert output.result == "a"
    assert "a confirmation token was redeemed" in [decision.rule for decision in output.decisions]
    with pytest.raises(NotAuthorizedError):
        registry.execute("write", {"name": "a"}, trace="t", token=token)
    assert asked == []


@pytest.mark.parametrize("change", [{"trace": "other"}, {"name": "b"}, {"scopes": ["network"]}, {"tools": ["other"]}])
def test_a_token_is_valid_only_for_its_binding(
    tokens: ConfirmationTokens, asking: Callable[[], tuple[ToolRegistry, Asked]], change: dict[str, object]
) -> None:
    registry, _ = asking()
    issued = {"trace": "t", "tools": ["write"], "scopes": ["write-filesystem"]} | {
        key: value for key, value in change.items() if key in ("scopes", "tools")
    }
    token = tokens.issue(**issued, params_digest=params_digest({"name": "a"}), ttl_seconds=60)  # type: ignore[arg-type]
    with pytest.raises(NotAuthorizedError):
        registry.execute("write", {"name": change.get("name", "a")}, trace=str(change.get("trace", "t")), token=token)


def test_a_registry_without_tokens_reports_it() -> None:
    registry = ToolRegistry()

    @tool(effects=["write-filesystem"])
    def write(name: str) -> str:
        """Write."""
        return name

    registry.register(write)
    with pytest.raises(NotAuthorizedError, match="confirmation tokens are not enabled"):
        registry.execute("write", {"name": "a"}, token="x")
