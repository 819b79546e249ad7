"""Errors, outputs and definitions keep everything when another process receives them."""

import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator

import pytest

import wasmrt
from tests.agent.approvals.requests import request
from wasmrt import (
    AccessChoice,
    ApprovalAnswer,
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LogEntry,
    LogLevel,
    Postgres,
    Preset,
    ResourceLimits,
    ToolAnswer,
    ToolCall,
    ToolOutput,
    ToolPolicy,
    ToolRegistry,
    ToolRule,
    Usage,
    WasmrtError,
    tool,
)
from wasmrt.core.errors import ToolError, ToolErrorKind

DECISION = Capabilities.none().explain_http("GET", "https://api.example.com/")


def subclasses(of: type[WasmrtError]) -> Iterator[type[WasmrtError]]:
    yield of
    for each in of.__subclasses__():
        yield from subclasses(each)


def import_all_modules() -> None:
    for module in pkgutil.walk_packages(wasmrt.__path__, "wasmrt."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


VALUES = {
    "message": "it failed", "file": "config.toml", "hint": "try later", "limit": 2.0, "used": 3.0, "setting": "fuel",
    "exit_code": 7, "signal": 9, "retry_after_seconds": 1.5, "requests": ("a1",), "name": "a.txt", "idle": True,
    "asks": ["http"], "code": "some-code", "output": "line 1", "problems": (("$.http", "not a list"),),
    "kind": ToolErrorKind.TIMEOUT,
}  # fmt: skip


def build(error: type[WasmrtError]) -> WasmrtError:
    """Construct an error with a value for every parameter that has a value in `VALUES`."""
    parameters = inspect.signature(error.__init__).parameters
    return error(**{name: VALUES[name] for name in parameters if name in VALUES})  # type: ignore[arg-type]


@pytest.mark.ci("slow")  # imports every module
def test_every_error_is_the_same_after_pickling() -> None:
    import_all_modules()
    classes = {error for error in subclasses(WasmrtError) if error.__module__.startswith("wasmrt.")}
    assert len(classes) > 60
    for error_class in classes:
        error = build(error_class)
        if isinstance(error, ToolError):
            error.call_id, error.decisions, error.usage = "call-1", (DECISION,), Usage()
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is error_class
        assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error)), error_class
        assert copy.as_dict() == error.as_dict()


FILLED = [
    AccessChoice(granted=True), ApprovalAnswer(approved=True, params={"a": 1}), request(), DECISION,
    CredentialLocation.header("x-api-key"),
    CredentialMapping(
        secret_name="key", location=CredentialLocation.header("x-api-key"), host_patterns=("api.example.com",)
    ),
    EndpointPattern("api.example.com"), Preset(name="small", tools=("echo",)),
    ToolAnswer(id="1", name="echo", text="hi"),
    ToolCall("1", "echo", "{}"), ToolOutput({"sum": 3}, "3", decisions=(DECISION,)), ToolRule(tool="echo"),
    ToolPolicy(), ToolPolicy(presets={"small": Preset(name="small")}, rules=(ToolRule(tool="echo"),)),
]  # fmt: skip
"""Public values with arguments."""


def test_every_public_value_is_equal_after_pickling() -> None:
    public = [getattr(wasmrt, name) for name in wasmrt.__all__]
    classes = {each for each in public if dataclasses.is_dataclass(each) or hasattr(each, "_fields")} - {Postgres}
    filled = {type(each) for each in FILLED}
    assert filled <= classes
    for value in [*FILLED, *(each() for each in classes - filled)]:
        copy = pickle.loads(pickle.dumps(value))
        assert type(copy) is type(value)
        assert copy == value


@tool(effects=[])
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_outputs_and_definitions_are_equal_after_pickling() -> None:
    registry = ToolRegistry()
    registry.register(add)
    log = LogEntry(LogLevel.INFO, "started", 1)
    values = [
        ToolOutput({"sum": 3}, "3", logs=(log,), decisions=(DECISION,), call_id="call-1"),
        registry.execute("add", {"a": 1, "b": 2}), registry.definitions("openai"), Usage(), ResourceLimits(),
        Capabilities.none(),
        Capabilities.none().with_http([EndpointPattern.host("api.example.com").with_methods("GET")]),
    ]  # fmt: skip
    for value in values:
        assert pickle.loads(pickle.dumps(value)) == value
