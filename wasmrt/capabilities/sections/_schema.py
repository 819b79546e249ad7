"""Declare all sections of a capability file, and write the JSON Schema.

Files may use the key names of wasmrt or of IronClaw. wasmrt writes its own key names.
"""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities._fields import Anything, Flag, ListOf, MapOf, Number, ObjectSchema, Property, Text
from wasmrt.capabilities.kinds import KINDS
from wasmrt.capabilities.kinds._limits import LIMITS
from wasmrt.capabilities.kinds._login import OAUTH, WEB_URL
from wasmrt.capabilities.model import METHODS, read_secret_name, read_tool_name
from wasmrt.core.effects import Effect

_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)


_VALIDATION = ObjectSchema(
    {
        "url": Property(field=WEB_URL, about="URL of the request. The request carries the credential.", required=True),
        "method": Property(field=_METHOD, about="Method of the request; GET by default."),
        "success_status": Property(field=Number(maximum=599), about="Status if the credential works; 200 by default."),
        "headers": Property(field=MapOf(item=_WORD), about="Additional headers of the request."),
    }
)
_AUTH = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="Name of the secret that the login stores.", required=True),
        "display_name": Property(field=_WORD, about="Name of the service, as shown to the user."),
        "instructions": Property(field=_PROSE, about="Instructions for getting a token."),
        "setup_url": Property(field=WEB_URL, about="Page where a token can be created."),
        "token_hint": Property(field=_PROSE, about="A description of the token's format."),
        "env_var": Property(field=_WORD, about="An environment variable that can contain the token."),
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
        about="JSON Schema for the parameters of a near:agent tool. It replaces the schema in the component.",
    ),
    "license": Property(field=_WORD, about="License of the tool, as an SPDX expression."),
    "source": Property(field=Text(max_length=2048), about="Location of the tool's source code."),
    "tags": Property(field=ListOf(item=_WORD), about="For other tool runtimes; wasmrt ignores it."),
    "tier": Property(field=_WORD, about="For other tool runtimes; wasmrt ignores it."),
    "$schema": Property(field=Text(max_length=2048), about="Location of the JSON Schema, for editors."),
}
ABOUT = {
    "description": Property(field=_PROSE, about="A description of the tool."),
    "version": Property(field=_WORD, about="Tool's version."),
    "wit_version": Property(field=_WORD, about="Version of the tool world for which the tool was built."),
    "auth": Property(field=_AUTH, about="Settings for getting the tool's credential from the user."),
    "logins": Property(field=MapOf(item=_LOGIN), about="Further logins, by vendor, with the keys of `auth`."),
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
