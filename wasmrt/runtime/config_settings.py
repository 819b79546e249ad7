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
        "network.unsafe_allowed_networks", "Internal networks that tools may reach.",
        ["10.1.0.0/16"], [],
    ),
    Setting("network.ca_file", "PEM file of authorities, instead of the system's.", "my-ca.pem"),
    Setting(
        "network.hosts", "Addresses of host names, used before DNS and checked like others.",
        {"api.internal": ["10.1.0.5"]},
    ),
    Setting("network.max_connections", "Connections to one host at one address.", 64, 128),
    Setting("network.connect_timeout_seconds", "Timeout of connecting to one address.", 5.0, 10.0, "seconds"),
    Setting(
        "network.unsafe_unscanned_hosts", "Hosts whose responses are passed on even if not scannable.",
        [_HOST], [],
    ),
    Setting(
        "network.unsafe_unscanned_responses",
        "The same for single responses, by host, path (or prefix that ends in `/`) and content type.",
        [f"{_HOST}/releases/ application/zip"], [],
    ),
    Setting(
        "network.rate_limit_storage", "URL of a Redis server that counts for several machines.",
        "redis://127.0.0.1:6379/0", secret=True,
    ),
    Setting(
        "network.unsafe_rate_limits_without_redis", "If Redis is unavailable, count in the process instead of denying.",
        True, False,
    ),
    Setting("guests.isolation", "in-process, process or required.", "required"),
    Setting("leaks.rules", "File of additional leak rules.", "leak-rules.toml"),
    Setting("leaks.actions", "Actions of leak rules by name: warn, redact or block.", {"jwt": "warn"}, {}),
    Setting("audit.enabled", "Write a receipt of every call.", False, True),
    Setting("audit.path", "Folder of the receipts.", "receipts"),
    Setting("audit.record", "Also record the host's answers to each call, for `wasmrt replay`.", True, False),
    Setting(
        "audit.max_segment_bytes", "Size of a file of receipts.", 1_048_576,
        DEFAULT_SEGMENT_BYTES, "bytes",
    ),
    Setting(
        "cache.max_compiled_bytes", "Size of the compiled code on disk.",
        268_435_456, _CACHE.max_compiled_bytes, "bytes",
    ),
    Setting(
        "cache.max_build_bytes", "Size of toolchains and caches of builds.",
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
    Setting("limits.max_concurrent_calls", "Concurrent calls of one user.", 16, 64),
    Setting("rates.calls_per_minute", "Calls of one user to one tool; without the section no limit.", 60),
    Setting("rates.calls_per_hour", "Calls of one user to one tool; without the section no limit.", 600),
    Setting("workspace.path", "Folder of the granted prefixes.", _FOLDER),
    Setting("workspace.per_user", "Use a folder per user below workspace.path.", True, False),
    Setting("workspace.undo", "Save changed files for `wasmrt undo`.", False, True),
    Setting("memory.enabled", "Offer the memory tools.", False, True),
    Setting("memory.path", "Folder of the users' databases, instead of a shared database.", "memory"),
    Setting(
        "memory.max_document_bytes", "Size of a document.", 65_536, MAX_MEMORY_DOCUMENT_BYTES, "bytes",
    ),
    Setting(
        "memory.max_user_bytes", "Size of a user's documents with earlier versions.", 1_048_576,
        MAX_MEMORY_BYTES, "bytes",
    ),
    Setting("memory.max_versions", "Earlier versions of a document.", 10, MAX_MEMORY_VERSIONS),
    Setting("memory.embedder", 'Model for semantic search: "wordllama".', "wordllama"),
    Setting("shell.enabled", "Allow the shell tool to run commands.", False, _SHELL.enabled),
    Setting("shell.unsafe_host", "Run commands without confinement, as this user.", True, _SHELL.unsafe_host),
    Setting(
        "shell.unsafe_write_git", "Keep hooks and settings of git that a command writes.", True,
        _SHELL.unsafe_write_git,
    ),
    Setting(
        "shell.timeout_seconds", "Timeout of a command, if its call sets none.", 60, _SHELL.timeout_seconds, "seconds",
    ),
    Setting("shell.max_timeout_seconds", "Longest timeout of a command.", 900, _SHELL.max_timeout_seconds, "seconds"),
    Setting("shell.memory_mib", "Private memory of each process.", 4096, _SHELL.memory_mib, "MiB"),
    Setting(
        "shell.read", "Paths that commands may read, besides workspace and system.",
        ["/opt/data"], [],
    ),
    Setting("shell.execute", "Paths that commands may read and execute.", ["/opt/toolchain"], []),
    Setting("shell.session", "Keep folder and variables within a conversation.", True, _SHELL.session),
    Setting("shell.network", "Hosts that commands may reach through the proxy.", ["packages.example.com"], []),
    Setting("shell.programs", "Further programs that a rule may allow.", ["mytool"], []),
    Setting(
        "secrets.backend", "Store of secrets: keyring, file, environment, command or vault; by default detected.",
        "file",
    ),
    Setting(
        "secrets.command",
        "Command that prints a secret; {name} and {user} are replaced.",
        ["op", "read", "op://agents/{name}/credential"],
    ),
    Setting("secrets.vault_address", "URL of the server.", "https://vault.example.com:8200"),
    Setting("secrets.vault_mount", "Path of the key-value engine.", "kv", _VAULT.mount),
    Setting(
        "secrets.vault_path", "Path of a secret; {name} and {user} are replaced.",
        "wasmrt/{user}/{name}", _VAULT.path,
    ),
    Setting("secrets.vault_field", "Field with the value.", "token", _VAULT.field),
    Setting("secrets.vault_namespace", "Namespace of the engine.", "team/agents"),
    Setting(
        "secrets.vault_token_file", "Private file with the token; default: VAULT_TOKEN.", "vault-token"
    ),
    Setting(
        "secrets.vault_token_command", "Command that prints the token.", ["vault", "print", "token"],
    ),
    Setting("web_fetch.robots_txt", "Let web_fetch read only pages that robots.txt allows.", True, False),
    Setting("web_search.provider", "brave, tavily or searxng.", "brave"),
    Setting("web_search.url", "URL of the SearxNG server.", "https://search.example.com/"),
    Setting("web_search.cost_per_search", "Price of a search, for estimates.", 0.005),
    Setting("explain.services", "File of services for explanations.", "services.toml"),
    Setting("install.hosts", "Hosts in URLs of sources; without the setting, all.", [_HOST]),
    Setting("install.require_signatures", "Refuse tools that are not signed.", True, False),
    Setting(
        "install.search",
        "Lists for wasmrt search and tool_search: index files, https URLs of index files or domains, and "
        "oci://HOST/PREFIX.",
        [f"https://{_HOST}/tools.json"], [],
    ),
    Setting(
        "install.signers",
        "Required signers (public keys, or identities and issuers) of tools from a URL or folder.",
        {"acme": {"source": f"https://{_HOST}/acme/", "key": "acme.pub"}}, {},
    ),
    Setting(
        "install.trusted_root", "File with the trusted root for keyless signatures; default: the one of sigstore.",
        "trusted_root.json",
    ),
    Setting("extensions.sources", "Folders of packages that models may request.", [_FOLDER], []),
    Setting("extensions.hosts", "Hosts from which models may request packages or MCP servers.", [_HOST], []),
    Setting("extensions.serve", "Offer these tools to clients of wasmrt serve.", True, False),
    Setting("desktop.tools", "Enabled desktop tools.", ["notify.send"], []),
    Setting("desktop.applications", "Desktop entries for apps.open.", ["org.gnome.Calculator"], []),
    Setting("desktop.hosts", "Hosts for browser.open_url; default: public hosts.", [_HOST], []),
    Setting("desktop.browser", "Path of a headless Chromium; by default, one is searched for.", "/opt/chromium/shell"),
    Setting("jobs.command", "Confined program for jobs, with arguments.", ["/usr/bin/agent"], []),
    Setting("jobs.max_parallel", "Active jobs of all users.", 2, 5),
    Setting("jobs.memory_mib", "Memory of each process.", 4096, 2048, "MiB"),
    Setting("jobs.read", "Paths that jobs may read.", [_FOLDER], []),
    Setting("jobs.execute", "Paths that jobs may read and execute.", [_FOLDER], []),
    Setting("skills.folders", "Folders of the user's own skills.", [_FOLDER], []),
    Setting("skills.sources", "Folders of skills that models may request.", [_FOLDER], []),
    Setting("skills.hosts", "Hosts from which models may request skills.", [_HOST], []),
    Setting("skills.serve", "Offer skill tools to clients of wasmrt serve.", True, False),
    Setting("serve.resource", "URL of the endpoint as clients use it.", "https://tools.example.com/mcp"),
    Setting("serve.issuer", "Authorization server, exactly as in its tokens.", "https://login.example.com"),
    Setting("serve.jwks_url", "URL of the authorization server's keys.", "https://login.example.com/keys"),
    Setting("serve.users", "Users by the value of the claim user_claim.", {"auth0|5f7c8ec7": "alice"}),
    Setting("serve.user_claim", "Claim that identifies the user.", "email", _SERVE["user_claim"]),
    Setting("serve.scopes", "Scopes that a token must have.", ["tools:call"], list(_SERVE["scopes"])),
    Setting("serve.algorithms", "Accepted signature algorithms.", ["RS256"], list(_SERVE["algorithms"])),
    Setting(
        "serve.clock_skew_seconds", "Tolerated difference of clocks.", 30, _SERVE["clock_skew_seconds"], "seconds",
    ),
    Setting(
        "database.url", "URL of a PostgreSQL database where hosts share approvals, tokens, memory and other stores.",
        "postgresql://wasmrt@db.example.com/wasmrt", secret=True,
    ),
    Setting(
        "database.password_secret", "Secret with the password; by default, it is in the URL, PGPASSWORD or PGPASSFILE.",
        "database_password",
    ),
    Setting(
        "database.key_secret", "Secret for keys of tokens and request states on all hosts; by default, local keys.",
        "token_key",
    ),
    Setting(
        "database.catalog", "Share installed tools and grants, too; requires database.key_secret.", True, False,
    ),
    Setting(
        "database.unsafe_without_tls", "Connect to another host without checking its certificate.", True, False,
    ),
)  # fmt: skip
