"""Read a plugin's manifest, `NAME.toml`, and report all errors together; describe its arguments as JSON Schema.

Source: zigclaw's tool manifests. In addition, an argument may have a description, `min_length` and `pattern`, and
`additional_properties` allows undeclared arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wasmrt.capabilities.file import (
    INVALID,
    Anything,
    Flag,
    ListOf,
    MapOf,
    Number,
    ObjectSchema,
    Problems,
    Property,
    Text,
    join_path,
)
from wasmrt.core.errors import ManifestError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES, MAX_PLUGIN_OUTPUT_BYTES, MAX_PLUGIN_RUNTIME_MS
from wasmrt.core.names import check_installed_name
from wasmrt.core.strict_toml import TomlError, read_toml
from wasmrt.sandbox.schema import schema_problem

_RUNTIME_MS = 2000
_OUTPUT_BYTES = 64 * 1024
_TYPES: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
_NUMBERS, _STRINGS = ("integer", "number"), ("string",)
_KEYWORDS = {
    "max_length": ("maxLength", _STRINGS),
    "min_length": ("minLength", _STRINGS),
    "pattern": ("pattern", _STRINGS),
    "min": ("minimum", _NUMBERS),
    "max": ("maximum", _NUMBERS),
    "enum": ("enum", tuple(_TYPES)),
    "description": ("description", tuple(_TYPES)),
}
"""Keys of an argument, each with its JSON Schema keyword and the types that can have it."""


class _Bound:
    """A field for an integer or float of either sign."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 2**53:
            problems.add(path, "must be a number of at most 2^53")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number"}


_ARGUMENT = ObjectSchema({
    "type": Property(field=Text(choices=tuple(_TYPES)), about="Its type.", required=True),
    "description": Property(field=Text(max_length=MAX_DESCRIPTION_BYTES), about="For models."),
    "max_length": Property(field=Number(), about="Maximum length of a string."),
    "min_length": Property(field=Number(), about="Minimum length of a string."),
    "pattern": Property(field=Text(max_length=1024), about="A regular expression that must match part of it."),
    "enum": Property(field=ListOf(item=Anything(), min_items=1), about="The allowed values."),
    "min": Property(field=_Bound(), about="The smallest number."),
    "max": Property(field=_Bound(), about="The largest number."),
})  # fmt: skip
_ARGS = ObjectSchema({
    "type": Property(field=Text(choices=("object",)), about="object.", required=True),
    "required": Property(field=ListOf(item=Text(max_length=128)), about="Required arguments."),
    "properties": Property(field=MapOf(item=_ARGUMENT), about="The arguments by name."),
    "additional_properties": Property(field=Flag(), about="True to allow other arguments."),
})  # fmt: skip
_OUTPUT = Number(maximum=MAX_PLUGIN_OUTPUT_BYTES)
_MANIFEST = ObjectSchema({
    "tool_name": Property(
        field=Text(max_length=64, check=check_installed_name), about="Must equal the file name.", required=True
    ),
    "version": Property(field=Text(max_length=64), about="Its version.", required=True),
    "description": Property(field=Text(max_length=MAX_DESCRIPTION_BYTES), about="For models.", required=True),
    "requires_network": Property(field=Flag(), about="True if it requires the network."),
    "native": Property(field=Flag(), about="True for a native program instead of a WASI component."),
    "max_runtime_ms": Property(field=Number(maximum=MAX_PLUGIN_RUNTIME_MS), about="Milliseconds that a call may take."),
    "max_stdout_bytes": Property(field=_OUTPUT, about="Maximum bytes of the response."),
    "max_stderr_bytes": Property(field=_OUTPUT, about="Maximum bytes on stderr."),
    "args": Property(field=_ARGS, about="Its arguments.", required=True),
})  # fmt: skip


class PluginManifest(NamedTuple):
    """A valid manifest."""

    tool_name: str
    version: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of its arguments."""
    native: bool = False
    requires_network: bool = False
    max_runtime_ms: int = _RUNTIME_MS
    max_stdout_bytes: int = _OUTPUT_BYTES
    max_stderr_bytes: int = _OUTPUT_BYTES

    @property
    def timeout_seconds(self) -> float:
        """Seconds that one call may take."""
        return self.max_runtime_ms / 1000


def read_manifest(data: bytes, *, name: str) -> PluginManifest:
    """Read the manifest of the plugin `name`, which is the name of the file.

    Raises:
        ManifestError: the manifest is invalid; the error lists each mistake with its key.
    """
    problems = Problems()
    read = _MANIFEST.read(_read_toml(data, name), "", problems)
    if read is INVALID:
        raise _manifest_error(name, problems)
    if read["tool_name"] != name:
        problems.add("tool_name", f"must be {name!r}, like the file name")
    args = read.pop("args")
    properties = args.get("properties", {})
    for required in args.get("required", ()):
        if required not in properties:
            problems.add("args.required", f"{required!r} is not a property")
    schema = {
        "type": "object",
        "properties": {key: _build_argument_schema(key, value, problems) for key, value in properties.items()},
        "required": args.get("required", []),
        "additionalProperties": args.get("additional_properties", False),
    }
    if not problems and (problem := schema_problem(schema)):
        problems.add("args", problem)
    if problems:
        raise _manifest_error(name, problems)
    return PluginManifest(schema=schema, **read)


def _build_argument_schema(name: str, argument: dict[str, Any], problems: Problems) -> dict[str, Any]:
    at = join_path("args.properties", name)
    kind = argument.pop("type")
    for key, value in argument.items():
        if kind not in _KEYWORDS[key][1]:
            problems.add(join_path(at, key), f"is not allowed for the type {kind}")
        elif key == "enum" and not all(_is(kind, item) for item in value):
            problems.add(join_path(at, key), f"must contain only values of type {kind}")
        elif key in ("min", "max") and not _is(kind, value):
            problems.add(join_path(at, key), f"must be of type {kind}")
    for low, high in (("min", "max"), ("min_length", "max_length")):
        if low in argument and high in argument and argument[low] > argument[high]:
            problems.add(join_path(at, low), f"must not be greater than {high}")
    return {"type": kind} | {_KEYWORDS[key][0]: value for key, value in argument.items()}


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _read_toml(data: bytes, name: str) -> dict[str, Any]:
    problems = Problems()
    try:
        return read_toml(data)
    except TomlError as error:
        problems.add("$", f"not TOML: {str(error)[:200]}")
        raise _manifest_error(name, problems) from None


def _manifest_error(name: str, problems: Problems) -> ManifestError:
    place, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ManifestError(
        f"invalid manifest of the plugin {name}: {place}: {first}{more}", problems=tuple(problems.found),
        hint=f"fix {name}.toml",
    )  # fmt: skip
