"""Descriptions of the runtime's settings in the operator's file. `config_file` reads them."""

from __future__ import annotations

from wasmrt.core.limits import (
    DEFAULT_SEGMENT_BYTES,
    MAX_MEMORY_BYTES,
    MAX_MEMORY_DOCUMENT_BYTES,
    MAX_MEMORY_VERSIONS,
    ResourceLimits,
)
from wasmrt.core.settings import Setting
from wasmrt.egress.vault import VaultSettings
from wasmrt.runtime.config_serve import ResourceSettings
from wasmrt.runtime.config_values import CacheSettings, ShellSettings

_LIMITS, _SHELL, _CACHE = ResourceLimits(), ShellSettings(), CacheSettings()
_SERVE, _VAULT = ResourceSettings._field_defaults, VaultSettings()
_HOST, _FOLDER = "files.example.com", "/srv/agent"
RUNTIME_SETTINGS = (
    Setting(
        "network.unsafe_allowed_networks", "Internal networks that tools may reach, in addition to public addresses.",
        ["10.1.0.0/16"], [],
    ),
    Setting("network.ca_file", "PEM file of certificate authorities, instead of the system's.", "my-ca.pem"),
    Setting(
        "network.hosts", "Addresses of host names, used before DNS. They are checked like other addresses.",
        {"api.internal": ["10.1.0.5"]},
    ),
    Setting("network.max_connections", "Maximum number of connections to one host at one address.", 64, 128),
    Setting("network.connect_timeout_seconds", "Timeout for connecting to one address.", 5.0, 10.0, "seconds"),
    Setting(
        "network.unsafe_unscanned_hosts", "Hosts whose responses are passed on even if a part cannot be scanned.",
        [_HOST], [],
    ),
    Setting(
        "network.unsafe_unscanned_responses",
        "The same for single responses, by host, path (everything below it if it ends in `/`) and content type.",
        [f"{_HOST}/releases/ application/zip"], [],
    ),
    Setting(
        "network.rate_limit_storage", "URL of a Redis server where several machines count rates together.",
        "redis://127.0.0.1:6379/0", secret=True,
    ),
    Setting(
        "network.unsafe_rate_limits_without_redis", "Count in the process if Redis is unavailable, instead of denying.",
        True, False,
    ),
    Setting("guests.isolation", "Process of guests: in-process, process or required.", "required"),
    Setting("leaks.rules", "File of additional leak rules.", "leak-rules.toml"),
    Setting("leaks.actions", "Actions of leak rules by name: warn, redact or block.", {"jwt": "warn"}, {}),
    Setting("audit.enabled", "Write a receipt of every call.", False, True),
    Setting("audit.path", "Folder of the receipts.", "receipts"),
    Setting("audit.record", "Also record the host's answers to each call, for `wasmrt replay`.", True, False),
    Setting(
        "audit.max_segment_bytes", "Size at which the receipts continue in a new file.", 1_048_576,
        DEFAULT_SEGMENT_BYTES, "bytes",
    ),
    Setting(
        "cache.max_compiled_bytes", "Size of the compiled code on disk; the least recently used code is removed.",
        268_435_456, _CACHE.max_compiled_bytes, "bytes",
    ),
    Setting(
        "cache.max_build_bytes", "Size of toolchains and caches of builds; the least recently used ones are removed.",
        1_073_741_824, _CACHE.max_build_bytes, "bytes",
    ),
    Setting("code_mode.enabled", "Offer `run_code` and `search_tools`.", True, False),
    Setting("telemetry.enabled", "Report calls to the program's OpenTelemetry SDK.", True, False),
    Setting(
        "limits.memory_bytes", "Memory of a call, unless its grant sets another limit.", 33_554_432,
        _LIMITS.memory_bytes, "bytes",
    ),
    Setting("limits.fuel", "Instructions of a call.", 1_000_000_000, _LIMITS.fuel, "instructions, approximately"),
    Setting("limits.timeout_seconds", "Timeout of a call.", 30.0, _LIMITS.timeout_seconds, "seconds"),
    Setting("limits.output_bytes", "Size of a result before scanning.", 1_048_576, _LIMITS.output_bytes, "bytes"),
    Setting("limits.table_elements", "Elements of each table of a guest.", 40_000, _LIMITS.table_elements),
    Setting("limits.instances", "Core instances in the store of a call.", 128, _LIMITS.instances),
    Setting("limits.max_concurrent_calls", "Maximum number of concurrent calls of one user.", 16, 64),
    Setting("rates.calls_per_minute", "Calls of one user to one tool in a minute. Without the section: no limit.", 60),
    Setting("rates.calls_per_hour", "Calls of one user to one tool in an hour. Without the section: no limit.", 600),
    Setting("workspace.path", "Folder that contains the granted workspace prefixes.", _FOLDER),
    Setting("workspace.per_user", "Use a folder for each user below the workspace; needs workspace.path.", True, False),
    Setting("workspace.undo", "Save changed files, so that `wasmrt undo` can restore them.", False, True),
    Setting("memory.enabled", "Offer the memory tools.", False, True),
    Setting("memory.path", "Folder of the memory databases, one for each user.", "memory"),
    Setting(
        "memory.max_document_bytes", "Maximum size of a document.", 65_536, MAX_MEMORY_DOCUMENT_BYTES, "bytes",
    ),
    Setting(
        "memory.max_user_bytes", "Maximum size of one user's documents with earlier versions.", 1_048_576,
        MAX_MEMORY_BYTES, "bytes",
    ),
    Setting("memory.max_versions", "Number of earlier versions of each document.", 10, MAX_MEMORY_VERSIONS),
    Setting("memory.embedder", 'Model for semantic search: "wordllama".', "wordllama"),
    Setting("shell.enabled", "Allow the shell tool to run commands.", False, _SHELL.enabled),
    Setting("shell.unsafe_host", "Run commands without confinement, as this user.", True, _SHELL.unsafe_host),
    Setting(
        "shell.unsafe_write_git", "Keep hooks and settings of git that a command writes.", True,
        _SHELL.unsafe_write_git,
    ),
    Setting(
        "shell.timeout_seconds", "Timeout of a command whose call sets none.", 60, _SHELL.timeout_seconds, "seconds",
    ),
    Setting("shell.max_timeout_seconds", "Longest timeout of a command.", 900, _SHELL.max_timeout_seconds, "seconds"),
    Setting("shell.memory_mib", "Private memory of each process of a command.", 4096, _SHELL.memory_mib, "MiB"),
    Setting(
        "shell.read", "Files and folders that commands may read, in addition to workspace and system.",
        ["/opt/data"], [],
    ),
    Setting("shell.execute", "Files and folders that commands may read and execute.", ["/opt/toolchain"], []),
    Setting("shell.session", "Keep folder and variables between the commands of a conversation.", True, _SHELL.session),
    Setting("shell.network", "Hosts that commands may reach through the proxy.", ["packages.example.com"], []),
    Setting("shell.programs", "Programs that a rule may allow, in addition to the known ones.", ["mytool"], []),
    Setting(
        "secrets.backend", "Store of secrets: keyring, file, environment, command or vault; by default detected.",
        "file",
    ),
    Setting(
        "secrets.command",
        "Command that prints a secret, as a list, for the backend `command`; {name} and {user} are replaced.",
        ["op", "read", "op://agents/{name}/credential"],
    ),
    Setting("secrets.vault_address", "URL of the server, for the backend `vault`.", "https://vault.example.com:8200"),
    Setting("secrets.vault_mount", "Path of the key-value engine, version 2.", "kv", _VAULT.mount),
    Setting(
        "secrets.vault_path", "Path of a secret in the engine; {name} and {user} are replaced.",
        "wasmrt/{user}/{name}", _VAULT.path,
    ),
    Setting("secrets.vault_field", "Field of the secret that contains the value.", "token", _VAULT.field),
    Setting("secrets.vault_namespace", "Namespace of the engine.", "team/agents"),
    Setting(
        "secrets.vault_token_file", "Private file with the token. By default, VAULT_TOKEN contains it.", "vault-token"
    ),
    Setting(
        "secrets.vault_token_command", "Command that prints the token, as a list.", ["vault", "print", "token"],
    ),
    Setting("web_search.provider", "Provider of web_search: brave, tavily or searxng.", "brave"),
    Setting("web_search.url", "URL of the SearxNG server; needs web_search.provider.", "https://search.example.com/"),
    Setting("web_search.cost_per_search", "Price of a search for estimates; needs web_search.provider.", 0.005),
    Setting("explain.services", "File of services that explanations use, too.", "services.toml"),
    Setting("extensions.sources", "Folders of packages that a model may request by name.", [_FOLDER], []),
    Setting("extensions.hosts", "Hosts from which a model may request packages or MCP servers.", [_HOST], []),
    Setting("extensions.serve", "Offer the tools that manage tools to the clients of wasmrt serve.", True, False),
    Setting("desktop.tools", "Enabled desktop tools.", ["notify.send"], []),
    Setting("desktop.applications", "Desktop entries that apps.open may open.", ["org.gnome.Calculator"], []),
    Setting("desktop.hosts", "Hosts that browser.open_url may open; if empty, every public host.", [_HOST], []),
    Setting("desktop.browser", "Path of a headless Chromium. By default, one is searched for.", "/opt/chromium/shell"),
    Setting("jobs.command", "Program, with arguments, that works on jobs, confined.", ["/usr/bin/agent"], []),
    Setting("jobs.max_parallel", "Number of jobs of all users that may be active.", 2, 5),
    Setting("jobs.memory_mib", "Memory of each process of a job.", 4096, 2048, "MiB"),
    Setting("jobs.read", "Files and folders that a job may read.", [_FOLDER], []),
    Setting("jobs.execute", "Files and folders that a job may read and execute.", [_FOLDER], []),
    Setting("skills.folders", "Folders of the user's own, trusted skills.", [_FOLDER], []),
    Setting("skills.sources", "Folders of skills that a model may request by name.", [_FOLDER], []),
    Setting("skills.hosts", "Hosts from which a model may request skills.", [_HOST], []),
    Setting("skills.serve", "Offer the tools for skills to the clients of wasmrt serve.", True, False),
    Setting("serve.resource", "URL of the endpoint as clients use it.", "https://tools.example.com/mcp"),
    Setting("serve.issuer", "URL of the authorization server, exactly as in its tokens.", "https://login.example.com"),
    Setting("serve.jwks_url", "URL of the authorization server's keys.", "https://login.example.com/keys"),
    Setting("serve.users", "Users by the value of the claim user_claim.", {"auth0|5f7c8ec7": "alice"}),
    Setting("serve.user_claim", "Claim of a token that identifies the user.", "email", _SERVE["user_claim"]),
    Setting("serve.scopes", "Scopes that a token must have.", ["tools:call"], list(_SERVE["scopes"])),
    Setting("serve.algorithms", "Accepted signature algorithms.", ["RS256"], list(_SERVE["algorithms"])),
    Setting(
        "serve.clock_skew_seconds", "Tolerated difference of clocks.", 30, _SERVE["clock_skew_seconds"], "seconds",
    ),
)  # fmt: skip
