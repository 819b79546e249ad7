"""The shape of what a capability file says about its tool: nothing here is a power."""

from __future__ import annotations

from wasmrt.capabilities._credential import read_secret_name
from wasmrt.capabilities._endpoint import METHODS
from wasmrt.capabilities.file._fields import Anything, Flag, ListOf, MapOf, Member, Number, Record, Text
from wasmrt.url._url import InvalidUrlError, parse_url

_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)


def _read_web_url(text: str) -> str:
    # A placeholder such as {okta_domain} is filled in when a person sets the tool up, and judged then.
    if text.startswith("https://") and "{" in text:
        return text
    url = parse_url(text)
    if url.scheme == "https" or url.host in ("localhost", "127.0.0.1", "::1"):
        return text
    raise InvalidUrlError("the URL must begin with https://")


_WEB_URL = Text(max_length=2048, check=_read_web_url, pattern=r"^https?://")


_VALIDATION = Record(
    {
        "url": Member(shape=_WEB_URL, about="Asked with the credential.", required=True),
        "method": Member(shape=_METHOD, about="GET where nothing is said."),
        "success_status": Member(shape=Number(maximum=599), about="200 where nothing is said."),
        "headers": Member(shape=MapOf(item=_WORD), about="Sent along."),
    }
)
_OAUTH = Record(
    {
        "authorization_url": Member(shape=_WEB_URL, about="Where the person agrees.", required=True),
        "token_url": Member(shape=_WEB_URL, about="Where the code becomes a token.", required=True),
        "client_id": Member(shape=_WORD, about="The client."),
        "client_id_env": Member(shape=_WORD, about="The environment variable that holds it."),
        "client_secret": Member(shape=_WORD, about="Only for clients whose secret is public."),
        "client_secret_env": Member(shape=_WORD, about="The environment variable that holds it."),
        "scopes": Member(shape=ListOf(item=Text(max_length=512)), about="What is asked for."),
        "use_pkce": Member(shape=Flag(), about="True where nothing is said."),
        "extra_params": Member(shape=MapOf(item=_WORD), about="Added to the authorization URL."),
        "access_token_field": Member(shape=_WORD, about="The answer's field; access_token where nothing is said."),
        "pending_instructions": Member(shape=_PROSE, about="Shown while waiting."),
    }
)
_AUTH = Record(
    {
        "secret_name": Member(shape=_SECRET, about="The secret that is set.", required=True),
        "display_name": Member(shape=_WORD, about="The service, for people."),
        "instructions": Member(shape=_PROSE, about="How to get a token."),
        "setup_url": Member(shape=_WEB_URL, about="Where to get one."),
        "token_hint": Member(shape=_PROSE, about="What one looks like."),
        "env_var": Member(shape=_WORD, about="An environment variable that may hold it."),
        "provider": Member(shape=_WORD, about="A shared login, such as google."),
        "optional": Member(shape=Flag(), about="The tool works without."),
        "oauth": Member(shape=_OAUTH, about="How to log in."),
        "validation_endpoint": Member(shape=_VALIDATION, about="A request that tells whether it works."),
    }
)
_SETUP_SECRET = Record(
    {
        "name": Member(shape=_SECRET, about="The secret.", required=True),
        "prompt": Member(shape=_PROSE, about="What the person is asked."),
        "optional": Member(shape=Flag(), about="May be left empty."),
        "validation": Member(shape=_PROSE, about="A pattern that the answer matches."),
        "auto_generate": Member(shape=Anything(only_object=True), about="Made up where the answer is empty."),
    }
)
_SETUP_FIELD = Record(
    {
        "name": Member(shape=_WORD, about="The setting.", required=True),
        "prompt": Member(shape=_PROSE, about="What the person is asked."),
        "optional": Member(shape=Flag(), about="May be left empty."),
        "input_type": Member(shape=Text(choices=("text", "password")), about="How it is typed."),
        "setting_path": Member(shape=_WORD, about="Where it is kept."),
    }
)
_SETUP = Record(
    {
        "required_secrets": Member(shape=ListOf(item=_SETUP_SECRET), about="Asked for before the first run."),
        "optional_secrets": Member(shape=ListOf(item=_SETUP_SECRET), about="May be left empty."),
        "required_fields": Member(shape=ListOf(item=_SETUP_FIELD), about="Settings that are no secrets."),
        "validation_endpoint": Member(shape=Text(max_length=2048), about="A URL, with {placeholders}."),
    }
)
_DISCOVERY = Record(
    {
        "always_required": Member(shape=ListOf(item=_PROSE), about="Parameters that every call needs."),
        "conditional_requirements": Member(shape=ListOf(item=_PROSE), about="What some calls need."),
        "notes": Member(shape=ListOf(item=_PROSE), about="Notes for the model."),
        "examples": Member(shape=ListOf(item=Anything()), about="Example parameters."),
    }
)
_WEBHOOK = Record(
    {
        key: Member(shape=_WORD, about=about)
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
SECTIONS = {
    "setup": Member(shape=_SETUP, about="What a person is asked before the first run."),
    "discovery_summary": Member(shape=_DISCOVERY, about="Hints for a model that looks for a tool."),
    "webhook": Member(shape=_WEBHOOK, about="Carried for other hosts; wasmrt receives no webhooks."),
    "websocket": Member(shape=Anything(only_object=True), about="Carried for other hosts; wasmrt opens none."),
    "config": Member(shape=Anything(only_object=True), about="Carried for other hosts; wasmrt reads none of it."),
    "parameters": Member(shape=Anything(only_object=True), about="Carried; the component's own schema counts."),
    "tags": Member(shape=ListOf(item=_WORD), about="Carried for other hosts."),
    "tier": Member(shape=_WORD, about="Carried for other hosts."),
    "$schema": Member(shape=Text(max_length=2048), about="Where editors find this schema."),
}
ABOUT = {
    "description": Member(shape=_PROSE, about="What the tool does."),
    "version": Member(shape=_WORD, about="The tool's version."),
    "wit_version": Member(shape=_WORD, about="The tool world's version that it was built for."),
    "auth": Member(shape=_AUTH, about="How a person gets the credential."),
}
