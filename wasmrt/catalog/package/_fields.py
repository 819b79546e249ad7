"""The keys of IronClaw's extension manifest, versions 3 and 2, that concern tools."""

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
_GATE = Property(field=Text(choices=GATES), about="The rule for calls from this origin.")
_AUDIENCE = ObjectSchema({
    "scheme": Property(field=_SCHEME, about="The scheme; it must be https for credentials."),
    "host": Property(field=_WORD, about="The host.", required=True, aliases=("host_pattern",)),
    "port": Property(field=Number(maximum=65535), about="The port."),
})  # fmt: skip
_INJECTION = ObjectSchema({
    "type": Property(
        field=Text(choices=("header", "query_param", "basic", "path_placeholder", "body_json_pointer")),
        about="The location type.", required=True,
    ),
    "name": Property(field=_WORD, about="The header or parameter."),
    "prefix": Property(field=_WORD, about="The text before the secret."),
    "username": Property(field=_WORD, about="The user name."),
    "placeholder": Property(field=_WORD, about="The placeholder in the path."),
    "pointer": Property(field=_WORD, about="The position in the body."),
})  # fmt: skip
_CREDENTIAL = ObjectSchema({
    "handle": Property(field=_HANDLE, about="The name of the secret.", required=True),
    "vendor": Property(field=_WORD, about="The login that provides the secret."),
    "scopes": Property(field=ListOf(item=_WORD), about="The scopes of the secret.", aliases=("provider_scopes",)),
    "audience": Property(field=_AUDIENCE, about="The requests that carry the secret.", required=True),
    "injection": Property(
        field=_INJECTION, about="The part of a request that contains the secret.", required=True, aliases=("target",)
    ),
    "required": Property(field=Flag(), about="True if requests need the secret."),
    "source": Property(field=Anything(only_object=True), about="In version 2: the account and its login."),
})  # fmt: skip
_TOOL = {
    "id": Property(field=_WORD, about="The tool's ID, in the form PACKAGE.TOOL.", required=True),
    "description": Property(field=_PROSE, about="A description for models."),
    "effects": Property(field=ListOf(item=Text(choices=tuple(EFFECTS))), about="The effects of its calls."),
    "default_permission": Property(field=Text(choices=("allow", "ask", "deny")), about="The default permission."),
    "visibility": Property(field=_WORD, about="model, the default, offers the tool to models."),
    "input_schema_ref": Property(field=_WORD, about="The schema of its parameters."),
    "output_schema_ref": Property(field=_WORD, about="The schema of its result."),
    "prompt_doc_ref": Property(field=_WORD, about="A document for models."),
    "max_egress_bytes": Property(field=Number(), about="The maximum size of a request body."),
    "network_targets": Property(field=ListOf(item=_AUDIENCE), about="Hosts whose requests carry no credential."),
    "origin_gate_matrix": Property(
        field=ObjectSchema(dict.fromkeys(ORIGINS, _GATE)), about="The rule for calls, by their origin."
    ),
    "credentials": Property(
        field=ListOf(item=_CREDENTIAL), about="Secrets of this tool.", aliases=("runtime_credentials",)
    ),
    "required_host_ports": Property(field=ListOf(item=_WORD), about="The host functions that it needs."),
    "resource_profile": Property(field=Anything(only_object=True), about="The expected resources of a call."),
}
TOOL = {
    V3: ObjectSchema(
        _TOOL | {"standard_op": Property(field=_WORD, about="The standard operation that defines the schemas.")}
    ),
    V2: ObjectSchema(_TOOL),
}
RUNTIME = ObjectSchema({
    "kind": Property(field=_WORD, about="The kind of runtime, which must be wasm.", required=True),
    "module": Property(field=_WORD, about="The component file."),
})  # fmt: skip
SETTINGS = ObjectSchema({
    "group_id": Property(field=_WORD, about="An ID for other tool runtimes; it is ignored."),
    "display_name": Property(field=_WORD, about="The name for users."),
    "description": Property(field=_PROSE, about="A description for users."),
    "fields": Property(
        field=ListOf(
            item=ObjectSchema({
                "handle": Property(field=_HANDLE, about="The setting.", required=True),
                "label": Property(field=_PROSE, about="The question to the operator."),
                "description": Property(field=_PROSE, about="Instructions for getting the value."),
                "secret": Property(field=Flag(), about="True to hide the value."),
                "required": Property(field=Flag(), about="True if a value is required."),
                "default": Property(field=Anything(), about="The default value."),
            })
        ),
        about="The operator's settings.",
    ),
})  # fmt: skip
LOGIN = ObjectSchema({
    "method": Property(field=_WORD, about="The login method: oauth2_code or api_key.", required=True),
    "display_name": Property(field=_WORD, about="The name of the service."),
    "authorization_endpoint": Property(field=_WORD, about="The page where the user agrees."),
    "token_endpoint": Property(field=_WORD, about="The endpoint that exchanges the code for a token."),
    "scopes": Property(field=ListOf(item=_WORD), about="The requested scopes."),
    "scope_param": Property(field=_WORD, about="The name of the parameter for scopes; scope by default."),
    "pkce": Property(field=Anything(), about="Ignored, because PKCE is always used."),
    "extra_authorize_params": Property(field=MapOf(item=_WORD), about="More parameters of the authorization URL."),
    "client_credentials": Property(
        field=ObjectSchema({
            "client_id_handle": Property(field=_HANDLE, about="The setting with the client ID.", required=True),
            "client_secret_handle": Property(field=_HANDLE, about="The setting with the client secret."),
        }),
        about="The settings with the client's ID and secret.",
    ),
    "token_response": Property(field=Anything(only_object=True), about="Fields of the token response."),
    "setup_url": Property(field=_WORD, about="The page where a key can be created."),
    "instructions": Property(field=_PROSE, about="Instructions for getting a key."),
    **{
        key: Property(field=Anything(), about="For other tool runtimes.")
        for key in ("refresh", "identity", "validation", "setup", "revocation", "token_exchange", "key", "fields")
    },
})  # fmt: skip
"""The keys of a login. Unknown keys are errors, because ignoring an unknown condition could widen access."""
HEAD = {
    "id": Property(field=Text(max_length=64), about="The ID of the package.", required=True),
    "name": Property(field=_WORD, about="The name for users."),
    "version": Property(field=_WORD, about="The version."),
    "description": Property(field=_PROSE, about="A description for users."),
    "trust": Property(field=_WORD, about="The requested trust level, which is ignored."),
    "runtime": Property(field=RUNTIME, about="The kind of runtime.", required=True),
    "auth": Property(field=MapOf(item=LOGIN), about="Logins by vendor."),
    "admin_configuration": Property(field=SETTINGS, about="The operator's settings."),
}
