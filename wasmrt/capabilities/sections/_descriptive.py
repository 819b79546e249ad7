"""The sections that describe a tool: none of them grants anything."""

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
        "url": Property(field=WEB_URL, about="Asked with the credential.", required=True),
        "method": Property(field=_METHOD, about="GET by default."),
        "success_status": Property(field=Number(maximum=599), about="200 by default."),
        "headers": Property(field=MapOf(item=_WORD), about="Sent along."),
    }
)
_AUTH = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="The secret that is set.", required=True),
        "display_name": Property(field=_WORD, about="The service, for people."),
        "instructions": Property(field=_PROSE, about="How to get a token."),
        "setup_url": Property(field=WEB_URL, about="Where to get one."),
        "token_hint": Property(field=_PROSE, about="What one looks like."),
        "env_var": Property(field=_WORD, about="An environment variable that may hold it."),
        "provider": Property(field=_WORD, about="A shared login, such as google."),
        "optional": Property(field=Flag(), about="The tool works without."),
        "oauth": Property(field=OAUTH, about="How to log in."),
        "validation_endpoint": Property(field=_VALIDATION, about="A request that tells whether it works."),
    }
)
_SETUP_SECRET = ObjectSchema(
    {
        "name": Property(field=_SECRET, about="The secret.", required=True),
        "prompt": Property(field=_PROSE, about="What the person is asked."),
        "optional": Property(field=Flag(), about="May be left empty."),
        "validation": Property(field=_PROSE, about="A pattern that the answer matches."),
        "auto_generate": Property(field=Anything(only_object=True), about="Made up where the answer is empty."),
    }
)
_SETUP_FIELD = ObjectSchema(
    {
        "name": Property(field=_WORD, about="The setting.", required=True),
        "prompt": Property(field=_PROSE, about="What the person is asked."),
        "optional": Property(field=Flag(), about="May be left empty."),
        "input_type": Property(field=Text(choices=("text", "password")), about="How it is typed."),
        "setting_path": Property(field=_WORD, about="Where it is kept."),
    }
)
_SETUP = ObjectSchema(
    {
        "required_secrets": Property(field=ListOf(item=_SETUP_SECRET), about="Asked for before the first run."),
        "optional_secrets": Property(field=ListOf(item=_SETUP_SECRET), about="May be left empty."),
        "required_fields": Property(field=ListOf(item=_SETUP_FIELD), about="Settings that are no secrets."),
        "validation_endpoint": Property(field=Text(max_length=2048), about="A URL, with {placeholders}."),
    }
)
_DISCOVERY = ObjectSchema(
    {
        "always_required": Property(field=ListOf(item=_PROSE), about="Parameters that every call needs."),
        "conditional_requirements": Property(field=ListOf(item=_PROSE), about="What some calls need."),
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
            "hmac_signature_header": "The header that holds it.",
            "hmac_timestamp_header": "The header that holds its time.",
            "hmac_prefix": "What stands before the signature.",
        }.items()
    }
)
_LOGIN = ObjectSchema({key: prop for key, prop in _AUTH.properties.items() if key != "provider"})
SECTIONS = {
    "setup": Property(field=_SETUP, about="What a person is asked before the first run."),
    "discovery_summary": Property(field=_DISCOVERY, about="Hints for a model that looks for a tool."),
    "webhook": Property(field=_WEBHOOK, about="Carried for other hosts; wasmrt receives no webhooks."),
    "websocket": Property(field=Anything(only_object=True), about="Carried for other hosts; wasmrt opens none."),
    "config": Property(field=Anything(only_object=True), about="Carried for other hosts; wasmrt reads none of it."),
    "parameters": Property(
        field=Anything(only_object=True),
        about="The JSON Schema of the params of a near:agent tool, in place of its own.",
    ),
    "license": Property(field=_WORD, about="An SPDX expression."),
    "source": Property(field=Text(max_length=2048), about="Where the tool's source is."),
    "tags": Property(field=ListOf(item=_WORD), about="Carried for other hosts."),
    "tier": Property(field=_WORD, about="Carried for other hosts."),
    "$schema": Property(field=Text(max_length=2048), about="Where editors find this schema."),
}
ABOUT = {
    "description": Property(field=_PROSE, about="What the tool does."),
    "version": Property(field=_WORD, about="The tool's version."),
    "wit_version": Property(field=_WORD, about="The tool world's version that it was built for."),
    "auth": Property(field=_AUTH, about="How a person gets the credential."),
    "logins": Property(field=MapOf(item=_LOGIN), about="The same for credentials of more vendors."),
}
