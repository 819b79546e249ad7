"""Convert JSON to WIT values, in the form that the engine's codec expects.

A WIT type is compiled once to a function that checks and converts a value. Its errors name the field that does not fit.
Values that do not have the exact JSON form of the type are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from wasmrt.core.errors import InvalidParametersError
from wasmrt.sandbox import component as wit
from wasmrt.sandbox.component import Case, Err, Ok, Some
from wasmrt.sandbox.schema._wording import describe, field_path, names, nearest
from wasmrt.sandbox.schema.wit._scalars import MisfitError, Reader, make_misfit_error, primitive_reader, read_bytes


def to_values(func: wit.FuncType, params: Mapping[str, Any]) -> list[Any]:
    """Return the params of a function as WIT values, in the function's order.

    Raises:
        InvalidParametersError: a param is missing, unknown, or does not have the JSON form of its type.
    """
    try:
        return list(_make_params_reader(func)(params).values())
    except MisfitError as error:
        path = field_path(error.path)
        raise InvalidParametersError(
            f"{path}: {error}" if path else str(error),
            hint="send params that match the tool's schema; wasmrt inspect shows it",
        ) from None


@lru_cache(maxsize=512)
def _make_params_reader(func: wit.FuncType) -> Reader:
    return _make_fields_reader(func.params)


def _make_reader(kind: wit.WitType) -> Reader:
    match kind:
        case wit.Primitive(name):
            return primitive_reader(name)
        case wit.ListType(wit.Primitive("u8")):
            return read_bytes
        case wit.ListType(element):
            return _list(_make_reader(element))
        case wit.RecordType(fields):
            return _make_fields_reader(fields)
        case wit.TupleType(elements):
            return _make_tuple_reader([_make_reader(element) for element in elements])
        case wit.VariantType(cases):
            return _make_tagged_reader({name: _make_payload_reader(name, inner, Case) for name, inner in cases})
        case wit.ResultType(ok, err):
            return _make_tagged_reader(
                {"ok": _make_payload_reader("ok", ok, _make_ok), "err": _make_payload_reader("err", err, _make_err)}
            )
        case wit.EnumType(choices):
            return _make_enum_reader(choices)
        case wit.FlagsType(choices):
            return _make_flags_reader(choices)
        case wit.OptionType(inner):
            return _make_option_reader(inner)
        case wit.ResourceRef():
            return _read_resource


def _make_ok(_name: str, value: Any = None) -> Ok:
    return Ok(value)


def _make_err(_name: str, value: Any = None) -> Err:
    return Err(value)


def _list(element: Reader) -> Reader:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise make_misfit_error("an array", value)
        items: list[Any] = []
        try:
            for item in value:
                items.append(element(item))
        except MisfitError as error:
            error.path.insert(0, len(items))
            raise
        return items

    return read


def _make_tuple_reader(elements: list[Reader]) -> Reader:
    count = len(elements)

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != count:
            raise make_misfit_error(f"an array of exactly {count} items", value)
        items: list[Any] = []
        try:
            for element, item in zip(elements, value, strict=True):
                items.append(element(item))
        except MisfitError as error:
            error.path.insert(0, len(items))
            raise
        return tuple(items)

    return read


def _make_fields_reader(fields: tuple[tuple[str, wit.WitType], ...]) -> Reader:
    steps = [(name, _make_reader(kind), isinstance(kind, wit.OptionType)) for name, kind in fields]
    known = frozenset(name for name, *_ in steps)
    required = [name for name, _, optional in steps if not optional]

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise make_misfit_error("an object", value)
        if not value.keys() <= known:
            unknown = next(name for name in value if name not in known)
            allowed = f"; the fields are {names(name for name, *_ in steps)}" if steps else "; no fields are allowed"
            raise MisfitError(
                f"unknown field {names([str(unknown)])}{nearest(unknown, (name for name, *_ in steps))}{allowed}"
            )
        missing = [name for name in required if name not in value]
        if missing:
            plural = "" if len(missing) == 1 else "s"
            raise MisfitError(f"missing required field{plural} {names(missing)} (required: {names(required)})")
        read_fields = {}
        for name, read_field, _ in steps:
            try:
                read_fields[name] = read_field(value.get(name))
            except MisfitError as error:
                error.path.insert(0, name)
                raise
        return read_fields

    return read


def _make_payload_reader(name: str, kind: wit.WitType | None, make: Callable[..., Any]) -> Reader:
    """Create the function that reads the tagged object of one case of a variant or result."""
    read_payload = None if kind is None else _make_reader(kind)
    optional = isinstance(kind, wit.OptionType)

    def read(value: Any) -> Any:
        if read_payload is None:
            if "value" in value:
                raise MisfitError(f"the case {name} takes no value; send only its tag", "value")
            return make(name)
        if "value" not in value and not optional:
            raise MisfitError(f"the case {name} requires a value")
        try:
            return make(name, read_payload(value.get("value")))
        except MisfitError as error:
            error.path.insert(0, "value")
            raise

    return read


def _make_tagged_reader(cases: dict[str, Reader]) -> Reader:
    expected = f'an object with a "tag" of {names(cases)}'

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping) or "tag" not in value:
            raise make_misfit_error(expected, value)
        tag = value["tag"]
        case = cases.get(tag) if isinstance(tag, str) else None
        if case is None:
            raise MisfitError(f"expected one of {names(cases)}, got {describe(tag)}{nearest(tag, cases)}", "tag")
        unknown = next((name for name in value if name not in ("tag", "value")), None)
        if unknown is not None:
            raise MisfitError(f"unknown field {names([str(unknown)])}; the fields are tag and value")
        return case(value)

    return read


def _make_enum_reader(choices: tuple[str, ...]) -> Reader:
    known = frozenset(choices)

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise MisfitError(f"expected one of {names(choices)}, got {describe(value)}{nearest(value, choices)}")
        return value

    return read


def _make_flags_reader(choices: tuple[str, ...]) -> Reader:
    flag = _make_enum_reader(choices)
    read_all = _list(flag)

    def read(value: Any) -> frozenset[str]:
        chosen = read_all(value)
        if len(set(chosen)) != len(chosen):
            raise MisfitError("expected unique flags, got a duplicate")
        return frozenset(chosen)

    return read


def _make_option_reader(inner: wit.WitType) -> Reader:
    read_inner = _make_reader(inner)
    if not isinstance(inner, wit.OptionType):
        return lambda value: None if value is None else read_inner(value)

    def read(value: Any) -> Some | None:
        if value is None:
            return None
        if not isinstance(value, Mapping) or list(value) != ["some"]:
            raise make_misfit_error('null or {"some": value}', value)
        try:
            return Some(read_inner(value["some"]))
        except MisfitError as error:
            error.path.insert(0, "some")
            raise

    return read


def _read_resource(_value: Any) -> Any:
    raise MisfitError("a resource handle cannot be sent as JSON")
