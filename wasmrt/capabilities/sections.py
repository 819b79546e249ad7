"""Declare the sections of a capability file, for the JSON Schema and for reading files as validated JSON data.

Files may use the key names of wasmrt or of IronClaw. wasmrt writes its own key names. All errors of a file are
reported together. The size is bounded, duplicate keys and NaN are errors, and each error has a JSON path.
"""

from __future__ import annotations

import json
import re
from typing import Any

from wasmrt.capabilities._fields import (
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
from wasmrt.capabilities.kinds import KINDS
from wasmrt.capabilities.kinds._limits import LIMITS
from wasmrt.capabilities.kinds._login import OAUTH, WEB_URL
from wasmrt.capabilities.model import METHODS, read_secret_name, read_tool_name
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityFileError
from wasmrt.core.limits import MAX_CAPABILITY_FILE_BYTES, MAX_CAPABILITY_FILE_DEPTH
from wasmrt.core.strict_json import JsonError, check_nesting

_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)


_VALIDATION = ObjectSchema(
    {
        "url": Property(field=WEB_URL, about="URL to which the credential is sent.", required=True),
        "method": Property(field=_METHOD, about="Method of the request; GET by default."),
        "success_status": Property(field=Number(maximum=599), about="Status if the credential works; 200 by default."),
        "headers": Property(field=MapOf(item=_WORD), about="Additional headers of the request."),
    }
)
_AUTH = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="Name of the secret that the login stores.", required=True),
        "display_name": Property(field=_WORD, about="Name of the service."),
        "instructions": Property(field=_PROSE, about="Instructions for getting a token."),
        "setup_url": Property(field=WEB_URL, about="Page where a token can be created."),
        "token_hint": Property(field=_PROSE, about="Format of the token."),
        "env_var": Property(field=_WORD, about="Environment variable with the token."),
        "provider": Property(field=_WORD, about="Name of the login for wasmrt auth --vendor, such as google."),
        "optional": Property(field=Flag(), about="True if the tool works without the credential."),
        "oauth": Property(field=OAUTH, about="An OAuth login; otherwise the user enters a token."),
        "validation_endpoint": Property(field=_VALIDATION, about="A request that checks the credential."),
    }
)
_SETUP_SECRET = ObjectSchema(
    {
        "name": Property(field=_SECRET, about="Name of the secret.", required=True),
        "prompt": Property(field=_PROSE, about="Question shown to the user."),
        "optional": Property(field=Flag(), about="True if the user may leave the secret empty."),
        "validation": Property(field=_PROSE, about="A pattern that the answer must match."),
        "auto_generate": Property(
            field=Anything(only_object=True), about="Settings for generating the secret if the answer is empty."
        ),
    }
)
_SETUP_FIELD = ObjectSchema(
    {
        "name": Property(field=_WORD, about="Name of the setting.", required=True),
        "prompt": Property(field=_PROSE, about="Question shown to the user."),
        "optional": Property(field=Flag(), about="True if the user may leave the setting empty."),
        "input_type": Property(field=Text(choices=("text", "password")), about="Kind of input field."),
        "setting_path": Property(field=_WORD, about="Path of the setting that stores the answer."),
    }
)
_SETUP = ObjectSchema(
    {
        "required_secrets": Property(field=ListOf(item=_SETUP_SECRET), about="Secrets requested before the first run."),
        "optional_secrets": Property(field=ListOf(item=_SETUP_SECRET), about="Secrets that the user may leave empty."),
        "required_fields": Property(field=ListOf(item=_SETUP_FIELD), about="Settings that are not secret."),
        "validation_endpoint": Property(field=Text(max_length=2048), about="A URL, with {placeholders}."),
    }
)
_DISCOVERY = ObjectSchema(
    {
        "always_required": Property(field=ListOf(item=_PROSE), about="Parameters that every call needs."),
        "conditional_requirements": Property(field=ListOf(item=_PROSE), about="Parameters that some calls need."),
        "notes": Property(field=ListOf(item=_PROSE), about="Notes for the model."),
        "examples": Property(field=ListOf(item=Anything()), about="Example parameters."),
    }
)
_WEBHOOK = ObjectSchema(
    {
        key: Property(field=_WORD, about=about)
        for key, about in {
            "secret_header": "The header that contains the shared secret.",
            "secret_name": "The name of the shared secret.",
            "signature_key_secret_name": "The name of the secret with the key of an Ed25519 signature.",
            "hmac_secret_name": "The name of the secret with the key of an HMAC signature.",
            "hmac_signature_header": "The header that contains the signature.",
            "hmac_timestamp_header": "The header that contains the time of the signature.",
            "hmac_prefix": "The text before the signature.",
        }.items()
    }
)
_LOGIN = ObjectSchema({key: prop for key, prop in _AUTH.properties.items() if key != "provider"})
SECTIONS = {
    "setup": Property(field=_SETUP, about="Questions to the user before the first run."),
    "discovery_summary": Property(field=_DISCOVERY, about="Hints for models that search for tools."),
    "webhook": Property(field=_WEBHOOK, about="For other tool runtimes; wasmrt does not receive webhooks."),
    "websocket": Property(
        field=Anything(only_object=True), about="For other tool runtimes; wasmrt does not open WebSockets."
    ),
    "config": Property(
        field=Anything(only_object=True), about="For other tool runtimes; wasmrt does not use this section."
    ),
    "parameters": Property(
        field=Anything(only_object=True),
        about="JSON Schema of an IronClaw tool's parameters (world near:agent). It replaces the component's schema.",
    ),
    "license": Property(field=_WORD, about="License of the tool, as an SPDX expression."),
    "source": Property(field=Text(max_length=2048), about="Location of the source code."),
    "tags": Property(field=ListOf(item=_WORD), about="For other tool runtimes; wasmrt ignores it."),
    "tier": Property(field=_WORD, about="For other tool runtimes; wasmrt ignores it."),
    "$schema": Property(field=Text(max_length=2048), about="Location of the JSON Schema, for editors."),
}
ABOUT = {
    "description": Property(field=_PROSE, about="A description of the tool."),
    "version": Property(field=_WORD, about="Version of the tool."),
    "wit_version": Property(field=_WORD, about="Version of the tool's world."),
    "auth": Property(field=_AUTH, about="Login of the user."),
    "logins": Property(field=MapOf(item=_LOGIN), about="Logins in addition to `auth`, by vendor."),
}


_KINDS = {kind.section: kind.file_section for kind in KINDS}
_TOOL = ObjectSchema(
    _KINDS
    | {
        "credentials": Property(
            field=ListOf(item=Text(max_length=128)),
            about="Names in `http.credentials` that this tool uses.",
        ),
        "effects": Property(
            field=ListOf(item=Text(choices=tuple(Effect))), about="Effects that calls of the tool can have."
        ),
    }
)
CAPABILITIES = _KINDS | {
    "limits": LIMITS,
    "tools": Property(
        field=MapOf(item=_TOOL, key=Text(max_length=128, pattern=r"^[!-~]+$", check=read_tool_name)),
        about="Capabilities of single tools; unlisted tools then have none.",
    ),
}
NESTED = "capabilities"
ROOT = ObjectSchema(
    CAPABILITIES
    | ABOUT
    | SECTIONS
    | {
        NESTED: Property(
            field=ObjectSchema(CAPABILITIES | ABOUT | SECTIONS),
            about="An object with the same sections, as an alternative to the top level.",
        )
    }
)


def capability_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of capability files. The schema accepts some files that `parse` rejects."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wasmrt capability file",
        "description": "The capabilities that a tool requests. A missing section requests nothing.",
    } | ROOT.schema()


_MAX_DIGITS = 18


def read_json(data: str | bytes, problems: Problems) -> Any:
    """Return the value of a JSON text, or add an error to `problems` and return None."""
    text = _decode(data, problems)
    if text is None or not _is_shallow(text, problems):
        return None
    try:
        value = json.loads(
            text, object_pairs_hook=_Object, parse_int=_read_int, parse_float=_read_float, parse_constant=_deny_constant
        )
    except json.JSONDecodeError as error:
        problems.add("$", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
        return None
    except ValueError as error:
        problems.add("$", f"not JSON: {error}")
        return None
    return _to_plain(value, "", problems)


class _Object:
    """The pairs of keys and values of a JSON object, as written, including duplicate keys."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _decode(data: str | bytes, problems: Problems) -> str | None:
    if len(data) > MAX_CAPABILITY_FILE_BYTES:
        problems.add("$", f"the file is larger than {MAX_CAPABILITY_FILE_BYTES} bytes")
        return None
    try:
        text = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        problems.add("$", f"the file is not UTF-8 (byte {error.start})")
        return None
    if text.startswith("\ufeff"):
        problems.add("$", "the file begins with a byte order mark; save it as plain UTF-8")
        return None
    return text


def _is_shallow(text: str, problems: Problems) -> bool:
    try:
        check_nesting(text, max_depth=MAX_CAPABILITY_FILE_DEPTH)
    except JsonError:
        problems.add("$", f"the file nests deeper than {MAX_CAPABILITY_FILE_DEPTH} levels")
        return False
    return True


def _read_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return int(digits)


def _read_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _deny_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _to_plain(value: Any, path: str, problems: Problems) -> Any:
    if isinstance(value, _Object):
        members: dict[str, Any] = {}
        for key, member in value.pairs:
            if key in members:
                problems.add(join_path(path, key), "duplicate key")
            members[key] = _to_plain(member, join_path(path, key), problems)
            _check_text(key, path, problems)
        return members
    if isinstance(value, list):
        return [_to_plain(item, join_path(path, index), problems) for index, item in enumerate(value)]
    if isinstance(value, str):
        _check_text(value, path, problems)
    return value


def _check_text(text: str, path: str, problems: Problems) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        problems.add(path, "the string contains an unpaired surrogate")


def read_tree(data: str | bytes) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the sections of a capability file as JSON data, and the names of the sections under `capabilities`.

    Keys are in their canonical spelling.

    Raises:
        CapabilityFileError: the file is invalid; `problems` lists every error with its JSON path.
    """
    problems = Problems()
    tree = read_json(data, problems)
    if (kind := _detect_other_kind(tree)) is not None:
        problems.add(kind, f"this file describes a {_OTHER_KINDS[kind]}, not a tool")
        raise file_error(problems)
    nested: frozenset[str] = frozenset()
    if tree is not None or not problems:
        tree, nested = _raise_nested(ROOT.read(tree, "", problems), problems)
    if problems:
        raise file_error(problems)
    return tree, nested


def nested_path(path: str, nested: frozenset[str]) -> str:
    """Return the JSON path of a value as in the file: below `capabilities`, if its section is in `nested`."""
    return f"{NESTED}.{path}" if re.split(r"[.\[]", path, maxsplit=1)[0] in nested else path


_OTHER_KINDS = {
    "channel": "channel (messages of a chat)",
    "hook": "hook (called by the loop of another agent)",
}
"""Kinds of IronClaw sidecars that do not describe tools. One error is reported, instead of an error for each key."""
_HOOK_KEYS = frozenset({"hook", "hooks", "hook_point", "hook_points"})


def _detect_other_kind(tree: Any) -> str | None:
    """Return `channel` or `hook` if the `type`, the `kind` or the sections of a file describe one, otherwise None."""
    if not isinstance(tree, dict):
        return None
    for part in (tree, tree.get(NESTED)):
        if not isinstance(part, dict):
            continue
        kinds = (
            {part.get("type"), part.get("kind")}
            if all(isinstance(part.get(key, ""), str) for key in ("type", "kind"))
            else set()
        )
        if "channel" in kinds or "channel" in part:
            return "channel"
        if "hook" in kinds or not _HOOK_KEYS.isdisjoint(part):
            return "hook"
    return None


def file_error(problems: Problems) -> CapabilityFileError:
    """Return the error for a file with problems."""
    first_path, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return CapabilityFileError(
        f"invalid capability file: {first_path}: {first}{more}",
        problems=tuple(problems.found),
        hint="wasmrt caps check FILE lists every error",
    )


def _raise_nested(tree: Any, problems: Problems) -> tuple[Any, frozenset[str]]:
    """Move the sections under `capabilities` to the top level and return their names. Duplicates are errors."""
    if tree is INVALID or NESTED not in tree:
        return tree, frozenset()
    nested = tree.pop(NESTED)
    for key in nested:
        if key in tree:
            problems.add(join_path(NESTED, key), f"{key!r} is also at the top level; keep one of them")
    return nested | tree, frozenset(nested)
