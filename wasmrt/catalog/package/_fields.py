"""The keys of IronClaw's extension manifest, versions 3 and 2, as far as they are about tools."""

from __future__ import annotations

from wasmrt.capabilities import read_secret_name
from wasmrt.capabilities.file import Anything, Flag, ListOf, MapOf, Number, ObjectSchema, Property, Text
from wasmrt.core.effects import Effect

V3 = "reborn.extension_manifest.v3"
V2 = "reborn.extension_manifest.v2"
EFFECTS = {
    "read_filesystem": Effect.READ_FILESYSTEM,
    "write_filesystem": Effect.WRITE_FILESYSTEM,
    "delete_filesystem": Effect.DELETE_FILESYSTEM,
    "network": Effect.NETWORK,
    "use_secret": Effect.USE_SECRET,
    "execute_code": Effect.EXECUTE_CODE,
    "spawn_process": Effect.SPAWN_PROCESS,
    "dispatch_capability": Effect.INVOKE_TOOL,
    "modify_extension": Effect.MODIFY_TOOLS,
    "modify_approval": Effect.MODIFY_TOOLS,
    "modify_budget": Effect.MODIFY_TOOLS,
    "external_write": Effect.EXTERNAL_WRITE,
    "financial": Effect.FINANCIAL,
}
ORIGINS = ("loop_run", "product", "automation")
GATES = ("forbidden", "ask_always", "gated_unless_granted", "consent_sufficient", "ungated")

_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)
_HANDLE = Text(max_length=128, check=read_secret_name)
_SCHEME = Text(choices=("https", "http"))
_GATE = Property(field=Text(choices=GATES), about="How a call of this origin is admitted.")
_AUDIENCE = ObjectSchema({
    "scheme": Property(field=_SCHEME, about="https."),
    "host": Property(field=_WORD, about="The host.", required=True, aliases=("host_pattern",)),
    "port": Property(field=Number(maximum=65535), about="Its port."),
})  # fmt: skip
_INJECTION = ObjectSchema({
    "type": Property(
        field=Text(choices=("header", "query_param", "basic", "path_placeholder", "body_json_pointer")),
        about="The place.", required=True,
    ),
    "name": Property(field=_WORD, about="The header or parameter."),
    "prefix": Property(field=_WORD, about="What stands before the secret."),
    "username": Property(field=_WORD, about="The user name."),
    "placeholder": Property(field=_WORD, about="The word in the path."),
    "pointer": Property(field=_WORD, about="The place in the body."),
})  # fmt: skip
_CREDENTIAL = ObjectSchema({
    "handle": Property(field=_HANDLE, about="The secret's name.", required=True),
    "vendor": Property(field=_WORD, about="The login that it comes from."),
    "scopes": Property(field=ListOf(item=_WORD), about="The scopes it needs.", aliases=("provider_scopes",)),
    "audience": Property(field=_AUDIENCE, about="Where it may go.", required=True),
    "injection": Property(field=_INJECTION, about="The place in a request.", required=True, aliases=("target",)),
    "required": Property(field=Flag(), about="The request waits for it."),
    "source": Property(field=Anything(only_object=True), about="Version 2: the account and its login."),
})  # fmt: skip
_TOOL = {
    "id": Property(field=_WORD, about="PACKAGE.TOOL.", required=True),
    "description": Property(field=_PROSE, about="For models."),
    "effects": Property(field=ListOf(item=Text(choices=tuple(EFFECTS))), about="Kinds of things that it does."),
    "default_permission": Property(field=Text(choices=("allow", "ask", "deny")), about="Before a person said."),
    "visibility": Property(field=_WORD, about="model, or hidden from it."),
    "input_schema_ref": Property(field=_WORD, about="The schema of its params."),
    "output_schema_ref": Property(field=_WORD, about="The schema of its result."),
    "prompt_doc_ref": Property(field=_WORD, about="A document for models."),
    "max_egress_bytes": Property(field=Number(), about="The most that a request's body may have."),
    "network_targets": Property(field=ListOf(item=_AUDIENCE), about="Hosts without a credential."),
    "origin_gate_matrix": Property(
        field=ObjectSchema(dict.fromkeys(ORIGINS, _GATE)), about="Who may call it; who is not named may not."
    ),
    "credentials": Property(
        field=ListOf(item=_CREDENTIAL), about="Secrets of this tool.", aliases=("runtime_credentials",)
    ),
    "required_host_ports": Property(field=ListOf(item=_WORD), about="What it needs of the host."),
    "resource_profile": Property(field=Anything(only_object=True), about="What a call is thought to take."),
}
TOOL = {
    V3: ObjectSchema(
        _TOOL | {"standard_op": Property(field=_WORD, about="An operation whose schema is a standard's.")}
    ),
    V2: ObjectSchema(_TOOL),
}
RUNTIME = ObjectSchema({
    "kind": Property(field=_WORD, about="wasm.", required=True),
    "module": Property(field=_WORD, about="The component."),
})  # fmt: skip
SETTINGS = ObjectSchema({
    "group_id": Property(field=_WORD, about="Carried."),
    "display_name": Property(field=_WORD, about="For people."),
    "description": Property(field=_PROSE, about="For people."),
    "fields": Property(
        field=ListOf(
            item=ObjectSchema({
                "handle": Property(field=_HANDLE, about="The setting.", required=True),
                "label": Property(field=_PROSE, about="What the operator is asked."),
                "description": Property(field=_PROSE, about="How to find it."),
                "secret": Property(field=Flag(), about="Never shown."),
                "required": Property(field=Flag(), about="May not be left empty."),
                "default": Property(field=Anything(), about="Where nothing is said."),
            })
        ),
        about="What the operator sets.",
    ),
})  # fmt: skip
LOGIN = ObjectSchema({
    "method": Property(field=_WORD, about="oauth2_code or api_key.", required=True),
    "display_name": Property(field=_WORD, about="The service."),
    "authorization_endpoint": Property(field=_WORD, about="Where the person agrees."),
    "token_endpoint": Property(field=_WORD, about="Where the code becomes a token."),
    "scopes": Property(field=ListOf(item=_WORD), about="What is asked for."),
    "scope_param": Property(field=_WORD, about="The parameter that names them; scope where nothing is said."),
    "pkce": Property(field=Anything(), about="Always used."),
    "extra_authorize_params": Property(field=MapOf(item=_WORD), about="Added to the address."),
    "client_credentials": Property(
        field=ObjectSchema({
            "client_id_handle": Property(field=_HANDLE, about="The setting that holds it.", required=True),
            "client_secret_handle": Property(field=_HANDLE, about="The setting that holds it."),
        }),
        about="The client.",
    ),
    "token_response": Property(field=Anything(only_object=True), about="Places in the token endpoint's answer."),
    "setup_url": Property(field=_WORD, about="Where a key is got."),
    "instructions": Property(field=_PROSE, about="How a key is got."),
    **{
        key: Property(field=Anything(), about="Carried for other hosts.")
        for key in ("refresh", "identity", "validation", "setup", "revocation", "token_exchange", "key", "fields")
    },
})  # fmt: skip
"""Unknown keys of a login are mistakes: one may be a condition that would be passed over."""
HEAD = {
    "id": Property(field=Text(max_length=64), about="The package.", required=True),
    "name": Property(field=_WORD, about="For people."),
    "version": Property(field=_WORD, about="The version."),
    "description": Property(field=_PROSE, about="For people."),
    "trust": Property(field=_WORD, about="What it asks to be taken for; nothing is taken on trust here."),
    "runtime": Property(field=RUNTIME, about="What runs it.", required=True),
    "auth": Property(field=MapOf(item=LOGIN), about="Logins by vendor."),
    "admin_configuration": Property(field=SETTINGS, about="What the operator sets."),
}
