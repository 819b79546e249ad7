"""The descriptive sections of a capability file, which grant nothing."""

from __future__ import annotations

from wasmrt.capabilities._fields import Anything, Flag, ListOf, MapOf, Number, ObjectSchema, Property, Text
from wasmrt.capabilities.kinds._login import OAUTH, WEB_URL
from wasmrt.capabilities.model import METHODS, read_secret_name

_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)


_VALIDATION = ObjectSchema(
    {
        "url": Property(field=WEB_URL, about="The URL that is requested with the credential.", required=True),
        "method": Property(field=_METHOD, about="GET by default."),
        "success_status": Property(field=Number(maximum=599), about="200 by default."),
        "headers": Property(field=MapOf(item=_WORD), about="Further headers of the request."),
    }
)
_AUTH = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="The secret that this login stores.", required=True),
        "display_name": Property(field=_WORD, about="The display name of the service."),
        "instructions": Property(field=_PROSE, about="Instructions for getting a token."),
        "setup_url": Property(field=WEB_URL, about="The page where a token can be created."),
        "token_hint": Property(field=_PROSE, about="A description of the token's format."),
        "env_var": Property(field=_WORD, about="An environment variable that can contain the token."),
        "provider": Property(field=_WORD, about="A shared login, such as google."),
        "optional": Property(field=Flag(), about="True if the tool works without the credential."),
        "oauth": Property(field=OAUTH, about="Settings of an OAuth login."),
        "validation_endpoint": Property(field=_VALIDATION, about="A request that checks the credential."),
    }
)
_SETUP_SECRET = ObjectSchema(
    {
        "name": Property(field=_SECRET, about="The secret.", required=True),
        "prompt": Property(field=_PROSE, about="The question shown to the user."),
        "optional": Property(field=Flag(), about="May be left empty."),
        "validation": Property(field=_PROSE, about="A pattern that the answer matches."),
        "auto_generate": Property(field=Anything(only_object=True), about="Generated if the answer is empty."),
    }
)
_SETUP_FIELD = ObjectSchema(
    {
        "name": Property(field=_WORD, about="The setting.", required=True),
        "prompt": Property(field=_PROSE, about="The question shown to the user."),
        "optional": Property(field=Flag(), about="May be left empty."),
        "input_type": Property(field=Text(choices=("text", "password")), about="The kind of input field."),
        "setting_path": Property(field=_WORD, about="The setting that stores the answer."),
    }
)
_SETUP = ObjectSchema(
    {
        "required_secrets": Property(field=ListOf(item=_SETUP_SECRET), about="Secrets requested before the first run."),
        "optional_secrets": Property(field=ListOf(item=_SETUP_SECRET), about="Secrets that can be left empty."),
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
            "secret_header": "The header that holds the shared secret.",
            "secret_name": "The shared secret.",
            "signature_key_secret_name": "The key of an Ed25519 signature.",
            "hmac_secret_name": "The key of an HMAC signature.",
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
    "webhook": Property(field=_WEBHOOK, about="For other runtimes; wasmrt does not receive webhooks."),
    "websocket": Property(field=Anything(only_object=True), about="For other runtimes; wasmrt opens no WebSockets."),
    "config": Property(field=Anything(only_object=True), about="For other runtimes; wasmrt does not read it."),
    "parameters": Property(
        field=Anything(only_object=True),
        about="The JSON Schema for the params of a near:agent tool; it replaces the tool's schema.",
    ),
    "license": Property(field=_WORD, about="An SPDX expression."),
    "source": Property(field=Text(max_length=2048), about="The location of the tool's source code."),
    "tags": Property(field=ListOf(item=_WORD), about="For other runtimes."),
    "tier": Property(field=_WORD, about="For other runtimes."),
    "$schema": Property(field=Text(max_length=2048), about="The location of this schema, for editors."),
}
ABOUT = {
    "description": Property(field=_PROSE, about="A description of the tool."),
    "version": Property(field=_WORD, about="The tool's version."),
    "wit_version": Property(field=_WORD, about="The version of the tool world that the tool was built for."),
    "auth": Property(field=_AUTH, about="The way in which the user provides the credential."),
    "logins": Property(field=MapOf(item=_LOGIN), about="Logins for further vendors, in the form of `auth`."),
}
