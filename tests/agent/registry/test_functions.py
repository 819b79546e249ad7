"""Python functions as tools: schemas, arguments, and errors at the definition."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic requires this one before Python 3.12

from wasmrt import (
    ConfigurationError,
    Effect,
    FunctionTool,
    SafetyTier,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRegistry,
    tool,
)
from wasmrt.core.errors import InvalidParametersError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Address(TypedDict):
    city: str
    street: str | None


class Order(BaseModel):
    item: str
    count: int = Field(default=1, ge=1, le=9)


def described(function: Any) -> dict[str, Any]:
    schema: dict[str, Any] = tool(function).schema
    return schema


GOOGLE = """Find flights.

    Only direct ones.

    Args:
        to: The place to
            fly to.
        limit: How many at most.

    Returns:
        A list.
    """
NUMPY = """Find flights.

    Only direct ones.

    Parameters
    ----------
    to : str
        The place to
        fly to.
    limit : int
        How many at most.
    """
SPHINX = """Find flights.

    Only direct ones.

    :param to: The place to
        fly to.
    :param limit: How many at most.
    :returns: A list.
    """


@pytest.mark.parametrize("words", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_a_docstring_describes_the_tool_and_each_param(words: str) -> None:
    def find(to: str, limit: int = 5) -> list[str]:
        return [to] * limit

    find.__doc__ = words
    made = tool(find)
    assert made.description == "Find flights.\n\nOnly direct ones."
    assert made.schema == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "The place to fly to."},
            "limit": {"type": "integer", "default": 5, "description": "How many at most."},
        },
        "additionalProperties": False,
        "required": ["to"],
    }


def test_type_hints_become_schemas_and_params_become_typed_values() -> None:
    seen: list[Any] = []

    @tool
    def place(
        colour: Colour,
        mode: Literal["fast", "slow"],
        point: Point,
        address: Address,
        order: Order,
        weight: Annotated[float, Field(gt=0)],
        tags: list[str] | None = None,
    ) -> None:
        """Place."""
        seen.extend([colour, mode, point, address, order, weight, tags])

    properties = place.schema["properties"]
    assert properties["colour"]["enum"] == ["red", "blue"]
    assert properties["mode"]["enum"] == ["fast", "slow"]
    assert properties["weight"]["exclusiveMinimum"] == 0
    params = {
        "colour": "red", "mode": "slow", "point": {"x": 1}, "address": {"city": "Bern", "street": None},
        "order": {"item": "tea", "count": 2}, "weight": 1.5,
    }  # fmt: skip
    place.execute(params)
    assert seen == [
        Colour.RED,
        "slow",
        Point(1),
        {"city": "Bern", "street": None},
        Order(item="tea", count=2),
        1.5,
        None,
    ]
    for wrong in ({"weight": 0}, {"mode": "other"}, {"order": {"item": "tea", "count": 10}}, {"point": {}}):
        with pytest.raises(InvalidParametersError):
            place.execute(params | wrong)


def test_a_tool_can_be_called_as_a_function() -> None:
    @tool(name="add-up")
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add(2, b=3) == 5
    assert add.name == "add-up"
    assert add.__doc__ == "Add."


def test_a_coroutine_function_is_awaited() -> None:
    @tool
    async def later(n: int) -> dict[str, int]:
        """Later."""
        return {"n": n}

    output = asyncio.run(later.execute({"n": 4}))  # type: ignore[arg-type]
    assert output.result == {"n": 4}


def test_the_context_is_passed_to_a_function_and_hidden_from_models() -> None:
    @tool
    def who(context: ToolContext, greeting: str = "hi") -> str:
        """Who."""
        return f"{greeting} {context.user}"

    assert list(who.schema["properties"]) == ["greeting"]
    assert who.execute({}, ToolContext(user="ann")).result == "hi ann"  # type: ignore[union-attr]
    with pytest.raises(InvalidParametersError):
        who.execute({"context": {"user": "root"}})


class Opaque:
    pass


def no_type(a): ...  # type: ignore[no-untyped-def]
def many(*args: int) -> None: ...
def named(**kwargs: int) -> None: ...
def positional(a: int, /) -> None: ...
def opaque(a: Opaque) -> None: ...
def callback(a: type[int]) -> None: ...
def lost(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [no_type, many, named, positional, opaque, lost], ids=lambda f: f.__name__)
def test_a_function_without_a_schema_is_rejected_at_its_definition(function: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tool(function)
    assert function.__name__ in caught.value.message
    assert caught.value.hint


T = TypeVar("T")


def bare(item: T) -> T:
    """Return it."""
    return item


def inner(items: dict[str, list[T] | None]) -> None:
    """Take them."""


def annotated(item: Annotated[T, Field(description="a thing")]) -> None:
    """Take it."""


class Page(BaseModel, Generic[T]):
    items: list[T]


def unfinished(page: Page) -> None:  # type: ignore[type-arg]
    """Take a page."""


def concrete(page: Page[int]) -> int:
    """Count the items of a page."""
    return len(page.items)


@pytest.mark.parametrize("function", [bare, inner, annotated, unfinished], ids=lambda f: f.__name__)
def test_a_type_variable_is_rejected_with_the_type_to_write(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="has the type variable T") as caught:
        tool(function)
    assert "write the type that a model sends, for example" in str(caught.value.hint)


def test_a_generic_type_with_arguments_is_accepted() -> None:
    assert tool(concrete).execute({"page": {"items": [1, 2]}}).result == 2  # type: ignore[union-attr]


def silent(query: str) -> None: ...


@pytest.mark.parametrize("description", [None, "", " \n"])
def test_an_empty_description_is_rejected_with_an_example(description: str | None) -> None:
    with pytest.raises(ConfigurationError, match="'silent' has no description") as caught:
        tool(description=description)(silent)
    assert 'description="..."' in str(caught.value.hint)
    assert tool(description="Search.")(silent).description == "Search."


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"effects": ["fly"]}, "is not an effect"),
        ({"actions": {"list": []}}, "has no list of values"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_an_invalid_setting_is_rejected_at_the_definition_of_the_tool(settings: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):

        @tool(**settings)
        def find(action: str) -> None:
            """Find."""


def test_declared_actions_must_equal_the_actions_of_the_schema() -> None:
    def work(action: Literal["list", "close"]) -> None:
        """Work."""

    assert tool(actions={"list": [], "close": ["external-write"]})(work).traits.action({"action": "close"})
    with pytest.raises(ConfigurationError, match="no effects for close"):
        tool(actions={"list": []})(work)
    with pytest.raises(ConfigurationError, match="no action open"):
        tool(actions={"list": [], "close": [], "open": []})(work)


def test_a_function_without_declared_effects_has_all_effects() -> None:
    @tool
    def mystery() -> None:
        """Mystery."""

    assert mystery.traits.effects == frozenset(Effect)
    assert mystery.traits.tier() is SafetyTier.PRIVILEGED
    assert not mystery.traits.declared


def test_an_exception_fails_the_call_and_a_tool_error_is_unchanged() -> None:
    @tool
    def broken(kind: str) -> None:
        """Broken."""
        if kind == "own":
            raise ToolError("no such note", code="note-not-found")
        raise LookupError("no such note")

    for kind, code in (("own", "note-not-found"), ("other", "execution-failed")):
        with pytest.raises(ToolError, match="no such note") as caught:
            broken.execute({"kind": kind})
        assert caught.value.code == code


def test_a_result_is_converted_to_json_or_rejected() -> None:
    @tool
    def results(kind: str) -> Any:
        """Results."""
        return {"model": Order(item="tea"), "point": Point(1, 2), "file": open}[kind]

    assert results.execute({"kind": "model"}).result == {"item": "tea", "count": 1}  # type: ignore[union-attr]
    assert results.execute({"kind": "point"}).result == {"x": 1, "y": 2}  # type: ignore[union-attr]
    with pytest.raises(ToolError, match="not JSON data"):
        results.execute({"kind": "file"})


def test_a_function_may_return_a_whole_output() -> None:
    @tool
    def whole() -> ToolOutput:
        """Whole."""
        return ToolOutput(result=1, duration=2.0)

    assert whole.execute({}) == ToolOutput(result=1, duration=2.0)


def test_the_duration_of_a_call_is_measured_unless_the_function_reports_it() -> None:
    @tool(effects=[])
    def whole(seconds: float) -> ToolOutput:
        """Whole."""
        return ToolOutput(result=1, duration=seconds)

    registry = ToolRegistry()
    registry.register(whole)
    assert registry.execute("whole", {"seconds": 2}).duration == 2
    measured = registry.execute("whole", {"seconds": 0})
    assert measured.duration == measured.usage.wall_seconds > 0


def test_a_changed_function_body_requires_a_new_approval() -> None:
    def one() -> int:
        """Return a number."""
        return 1

    first, again = tool(one), tool(one)
    assert first.digest == again.digest

    def one() -> int:  # type: ignore[no-redef]
        """Return a number."""
        return 2

    assert tool(one).digest != first.digest


def test_approval_can_depend_on_the_params() -> None:
    @tool(effects=[], approval=lambda params: params["amount"] > 10)
    def pay(amount: int) -> None:
        """Pay."""

    assert isinstance(pay, FunctionTool)
    assert not pay.requires_approval({"amount": 10})
    assert pay.requires_approval({"amount": 11})
