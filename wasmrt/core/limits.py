"""Limits of calls, files, messages and stores. The name of each limit contains the unit, and often the scope.

If the name does not make the scope clear, a comment says what the limit applies to.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """The resource limits of a single call.

    The defaults suffice for every guest language that was measured. A Python guest needs 12.4 MiB of memory, 38 core
    instances and 5,700 table elements; a JavaScript guest needs 7,700 table elements.

    Raises:
        ConfigurationError: a limit is zero, negative, too large or not a number, or has a fraction and is not a time.

    Examples:
        >>> from wasmrt import ResourceLimits
        >>> ResourceLimits(memory_bytes=16 * 1024 * 1024).memory_bytes
        16777216
    """

    memory_bytes: int = 64 * MIB  # the total size of all linear memories of the store
    fuel: int = 500_000_000  # about one unit per instruction, which suffices to process a few MB of JSON
    timeout_seconds: float = 60.0  # from the start of the call until the result was scanned, with waits and host calls
    output_bytes: int = 4 * MIB  # the result as the guest returned it
    table_elements: int = 20_000  # per table
    instances: int = 64  # core instances in the store

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**62:
                raise ConfigurationError(f"limit {field.name} must be a positive number, not {value!r}")
            if field.name != "timeout_seconds" and not isinstance(value, int):
                raise ConfigurationError(f"limit {field.name} must be a whole number, not {value!r}")


class FuelConfig(NamedTuple):
    """Settings for fuel: whether it is metered, and the limit of a call if the tool has no limit of its own.

    Examples:
        >>> from wasmrt import FuelConfig
        >>> FuelConfig(limit=100_000_000)
        FuelConfig(enabled=True, limit=100000000)
    """

    enabled: bool = True
    limit: int | None = None


# Per call: requests of a guest to the host.
MAX_HTTP_REQUESTS = 50
MAX_TOOL_INVOCATIONS = 20
MAX_INVOKE_DEPTH = 4
MAX_LOG_ENTRIES = 1000
MAX_LOG_ENTRY_BYTES = 4 * KIB
MAX_PROGRESS_REPORTS = 1000
MAX_DECISIONS = 200
MAX_HOST_CALLS = 1_000_000
MAX_HANDLES = 1024
MAX_LIFTED_VALUES = 262_144
MAX_HOST_TEXT_BYTES = 8 * MIB
MAX_RANDOM_BYTES_PER_CALL = 64 * KIB
MAX_RANDOM_BYTES = 1 * MIB
MAX_STREAM_CHUNK_BYTES = 64 * KIB
MAX_CAPTURED_OUTPUT_BYTES = 256 * KIB
MAX_POLLABLES = 1024
CLOCK_RESOLUTION_NS = 1_000_000
MAX_REFUSALS = 64

# Code mode: one program, and its run, which may be resumed after an approval.
MAX_CODE_BYTES = 64 * KIB
MAX_CODE_CALLS = 256  # tool calls in one run
MAX_CODE_CALL_BYTES = 1 * MIB  # params of one tool call
MAX_CODE_RUN_BYTES = 8 * MIB  # params and results of all tool calls in one run
CODE_LIMITS = ResourceLimits(
    memory_bytes=128 * MIB, fuel=10_000_000_000, timeout_seconds=120.0, output_bytes=4 * MIB, table_elements=40_000
)
"""Limits for one run of a program. The interpreter executes about a hundred instructions for each step of the program.
"""
MAX_CODE_RUNS = 32  # suspended runs per user
CODE_RUN_SECONDS = 24 * 3600.0  # a suspended run is deleted this long after it was last resumed
MAX_STUBS = 50  # tool descriptions on one page of search results
MAX_STUB_BYTES = 4 * KIB  # one tool description; a longer schema is truncated
MAX_STUBS_BYTES = 24 * KIB  # one page of search results

# Params and results.
MAX_PARAMS_BYTES = 8 * MIB
MAX_JSON_DEPTH = 64
MAX_JSON_PARTS = 100_000
MAX_TOOL_OUTPUT_BYTES = 16 * MIB
"""The result of a tool that is not a component. The limit for a component is `ResourceLimits.output_bytes`."""
MAX_ERROR_TEXT_BYTES = 4 * KIB

# Programs of `wasi:cli/command`. MAX_PARAMS_BYTES also limits the total size of all arguments and the input.
MAX_PROGRAM_ARGUMENTS = 1024
MAX_PROGRAM_ARGUMENT_CHARS = 32 * KIB
PROGRAM_TAIL_CHARS = 2 * KIB  # the end of a program's output, which the error message for a failed program quotes

# A component's description and schema, read once by `prepare`.
MAX_DESCRIPTION_BYTES = 4 * KIB
MAX_SCHEMA_BYTES = 64 * KIB
MAX_SCHEMA_DEPTH = 16
MAX_SCHEMA_PARTS = 10_000
MAX_TOOLS_PER_COMPONENT = 128

# Component files.
COMPONENT_WARN_BYTES = 10 * MIB
COMPONENT_MAX_BYTES = 64 * MIB
MAX_SHARED_CATALOG_BYTES = 64 * MIB  # rows of the catalog that hosts share, without the components
MAX_TOOL_VERSIONS = 16
MAX_COMPONENT_NAMES = 2_000
MAX_COMPONENT_NAMES_BYTES = 256 * KIB

# Counts in a component, checked before it is compiled. The comments give the largest count measured in a real guest.
MAX_COMPONENT_SECTIONS = 20_000  # 750, a JavaScript guest
MAX_COMPONENT_DEPTH = 64  # 3, a JavaScript guest
MAX_COMPONENT_TYPE_BYTES = 1 * MIB
MAX_COMPONENT_DEFINITIONS = 100_000  # definitions in the file, and also after the expansion of every instantiation
MAX_CORE_INSTANCES = 4_096
MAX_CANONICAL_FUNCTIONS = 4_096
MAX_CORE_TYPES = 50_000
MAX_COMPONENT_FUNCTIONS = 200_000  # 13,500, a Python guest, which also has the largest counts for the limits below
MAX_FUNCTION_BYTES = 6 * MIB
MAX_FUNCTION_BRANCHES = 450_000
MAX_FUNCTION_BLOCK_WORK = 12_000_000
MAX_FUNCTION_READ_WORK = 40_000_000
"""Unreachable blocks count, too, because the compiler reads them and stores every local variable for each."""
MAX_FUNCTION_VALUE_WORK = 300_000_000
MAX_FUNCTION_LOOP_WORK = 2_000_000_000
MAX_COMPONENT_LOOP_WORK = 10_000_000_000
MAX_DECODED_CODE_BYTES = 8 * MIB
"""Maximum code of functions that are decoded for an exact count, because an estimate exceeds a limit above."""

# HTTP, unless a grant sets a lower limit.
DEFAULT_MAX_REQUEST_BYTES = 1 * MIB
DEFAULT_MAX_RESPONSE_BYTES = 10 * MIB
DEFAULT_HTTP_TIMEOUT_SECONDS = 30.0
DEFAULT_REQUESTS_PER_MINUTE = 60
DEFAULT_REQUESTS_PER_HOUR = 1000
MAX_URL_BYTES = 8 * KIB
MAX_HEADERS = 128
MAX_HEADER_BYTES = 64 * KIB
MAX_HELD_HTTP_BYTES = 64 * MIB
MAX_LIST_BYTES = 10 * MIB
"""Bytes of a response that a guest receives as one list; `wasi:http` reads responses in pieces."""
MAX_OPEN_ANSWERS = 8

# Workspace files.
MAX_WORKSPACE_FILE_BYTES = 5 * MIB
MAX_WORKSPACE_ENTRIES = 10_000
MAX_WORKSPACE_BYTES_PER_CALL = 64 * MIB
DEFAULT_WRITE_FILE_BYTES = MAX_WORKSPACE_FILE_BYTES
"""The default for one file. It is equal to the limit for reading, so that a tool can read the files that it wrote."""
DEFAULT_WRITE_BYTES = 16 * MIB
MAX_WRITE_BYTES = MAX_WORKSPACE_BYTES_PER_CALL  # the most that a grant can allow for all writes of one call
DEFAULT_WRITE_FILES = 100
MAX_WRITE_FILES = 10_000
MAX_PATH_BYTES = 4 * KIB

# The undo journal for workspace changes. A change that would exceed a limit of the journal is refused.
MAX_UNDO_FILE_BYTES = 32 * MIB  # previous content of one file
MAX_UNDO_CALL_BYTES = 64 * MIB
MAX_UNDO_BYTES = 512 * MIB
"""The total size for all calls. When it is reached, the oldest calls of the user with the most data are deleted."""
MAX_UNDO_CALLS = 1000

# An agent's memory, per user. The parameters of the memory tools have their own bounds, in their schemas.
MAX_MEMORY_DOCUMENT_BYTES = 1 * MIB
MAX_MEMORY_BYTES = 64 * MIB  # default for all documents and old versions; when it is reached, old versions are deleted
MAX_MEMORY_DOCUMENTS = 10_000
MAX_MEMORY_CHUNKS = 100_000  # indexed pieces of documents
MAX_MEMORY_VERSIONS = 100  # default number of old versions of one document
MAX_MEMORY_PATH_BYTES = 512
MAX_MEMORY_PATH_DEPTH = 16
MAX_MEMORY_QUERY_CHARS = 4096
MAX_MEMORY_QUERY_WORDS = 32
MAX_MEMORY_RESULTS = 20
MAX_MEMORY_TREE_DEPTH = 10
MAX_MEMORY_TREE_ENTRIES = 500
MAX_EMBEDDING_DIMENSIONS = 4096

# Capability files.
MAX_CAPABILITY_FILE_BYTES = 256 * KIB
MAX_CAPABILITY_FILE_DEPTH = 16
MAX_CAPABILITY_ENTRIES = 256

# Signatures of tools.
MAX_BUNDLES = 32  # signatures of one tool
MAX_BUNDLE_BYTES = 256 * KIB
MAX_BUNDLE_DEPTH = 16
MAX_REFERRER_BYTES = 64 * KIB  # the manifest of a signature in a registry
MAX_TRUSTED_ROOT_BYTES = 1 * MIB
MAX_LOCK_BYTES = 1 * MIB
MAX_EXPORT_INDEX_BYTES = 4 * MIB
MAX_EXPORTED_TOOLS_BYTES = 16 * MIB  # descriptions of the tools of one package

# Receipts.
MAX_RECEIPT_BYTES = 1 * MIB  # one receipt line; decisions beyond it are counted but omitted
DEFAULT_SEGMENT_BYTES = 16 * MIB
MIN_SEGMENT_BYTES = 64 * KIB
MAX_RECEIPT_CHAINS = 256  # processes and runtimes that write receipts to one folder at the same time
MAX_TORN_BYTES = 4 * KIB  # the part of an incomplete line (after a crash) that is stored
MAX_RECORDING_BYTES = 8 * MIB  # one call; a larger recording is dropped
MAX_RECORDINGS_BYTES = 256 * MIB  # one directory; the oldest recordings are deleted for new ones

# Secrets.
MIN_SECRET_CHARS = 6  # shorter secrets are refused, because scanning for them would redact ordinary words
MAX_SECRET_BYTES = 64 * KIB
MAX_USER_BYTES = 256
MAX_SECRETS_FILE_BYTES = 8 * MIB
SECRET_COMMAND_SECONDS = 10.0  # for the operator's command that prints a secret
VAULT_SECONDS = 10.0  # one request to Vault, or the command that prints its token
MAX_ENV_FILE_BYTES = 1 * MIB
MAX_DOCKER_CONFIG_BYTES = 1 * MIB

# Approvals and confirmation tokens.
APPROVAL_TIMEOUT_SECONDS = 300.0
MAX_PENDING_APPROVALS = 256
MAX_APPROVAL_BYTES = 1 * MIB  # params and preview of one pending request
MAX_PENDING_APPROVAL_BYTES = 16 * MIB
MAX_DECIDED_APPROVALS = 10_000
MAX_REMEMBERED_ANSWERS = 10_000
MAX_SESSION_ANSWERS = 1_000  # for the rest of one session, in a database of several hosts
SESSION_ANSWER_SECONDS = 24 * 3600
MAX_KNOWN_HOSTS = 10_000  # hosts to which calls were approved, for each user and tool
MAX_ANSWER_NOTE_BYTES = 1 * KIB
APPROVAL_POLL_SECONDS = 0.25  # longest interval between two checks for an answer from another process
ACCESS_REQUEST_SECONDS = 24 * 3600.0  # lifetime of a request for an additional grant entry
ACCESS_ONCE_SECONDS = 3600.0  # time after the answer `once` in which a call can use it
MAX_ACCESS_PER_CALL = 4  # new access requests from one call
MAX_ACCESS_PER_TOOL = 8  # pending access requests of one user for one tool
MAX_ACCESS_PER_USER = 32
MAX_PENDING_ACCESS = 256
MAX_DECIDED_ACCESS = 1_000
MAX_ACCESS_PARAMS_BYTES = 16 * KIB
MAX_TOKEN_BYTES = 8 * KIB
MAX_TOKEN_TOOLS = 64
MAX_TOKEN_TTL_SECONDS = 24 * 3600.0
MAX_TOKEN_USES = 1000
MAX_LIVE_TOKENS = 100_000  # redeemed tokens that have not expired

# Flows: data that a trace stores about its text.
MAX_FLOW_BYTES = 4 * MIB  # untrusted text; the same limit applies to fingerprints of private text
MAX_FLOW_SAID_BYTES = 256 * KIB  # the user's messages; the same limit applies to values that the operator trusts
MAX_FLOW_SOURCES = 1024  # results that can be quoted as the source of a value
MAX_FLOW_IDS = 4096  # objects that are known by an identifier
MAX_FLOW_VALUES = 256  # values checked in one call; a call with more requires approval
MAX_FLOW_TRACES = 1024  # traces that one registry stores at a time
MAX_PLAN_BYTES = 32 * KIB
MAX_PLAN_STEPS = 32
MAX_PLAN_CALLS = 1000  # calls of one step
MAX_PLANS = 8  # approved plans of one trace
MAX_PLAN_RESULT_BYTES = 1 * MIB  # results of one trace from which plans may take values

# Outgoing connections.
MAX_DNS_ANSWERS = 64
MAX_DNS_LOOKUPS = 64
MAX_CONNECT_ATTEMPTS = 3
CONNECT_TIMEOUT_SECONDS = 10.0
KEEPALIVE_SECONDS = 30.0
MAX_CONNECTIONS_PER_ORIGIN = 128
MAX_IDLE_CONNECTIONS = 256
MAX_ASYNC_HTTP_THREADS = 64  # threads of one asynchronous transport, each for one request or read
MAX_CONTENT_CODINGS = 1
MAX_CONTENT_MEMBERS = 1024
MAX_RATE_KEYS = 50_000
REDIS_TIMEOUT_SECONDS = 0.5
REDIS_PAUSE_SECONDS = 5.0  # pause after a Redis failure, during which Redis is not used
POSTGRES_CONNECT_SECONDS = 5
POSTGRES_NOW_MS = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
"""The time of a PostgreSQL server in Unix milliseconds. Leases do not depend on the clocks of the hosts."""
POSTGRES_STATEMENT_SECONDS = 30  # limit of a statement, of a wait for a lock, and of an idle transaction
MAX_IDLE_POSTGRES_CONNECTIONS = 4  # per store and process
OWNER_LEASE_SECONDS = 30.0  # if not renewed, the process's client requests are withdrawn
MAX_OWN_RESPONSE_BYTES = 1 * MIB
OAUTH_TIMEOUT_SECONDS = 20.0
OAUTH_REFRESH_MARGIN_SECONDS = 60.0
OAUTH_LOGIN_SECONDS = 300.0

# The operator's configuration file.
MAX_CONFIG_FILE_BYTES = 256 * KIB
MAX_CA_FILE_BYTES = 16 * MIB  # a system's certificate authorities take 0.2 MiB

# Authoring: limits of templates, projects and test cases, and durations of build steps.
MAX_PROJECT_FILES = 10_000
MAX_BUILD_INPUT_BYTES = 256 * MIB
MAX_BUILD_RECORD_BYTES = 4 * MIB
DEFAULT_BUILD_CACHE_BYTES = 2 * GIB  # downloaded toolchains and caches of compilers
MIN_CACHE_BYTES = 16 * MIB  # the smallest limit of compiled code, or of build folders
MAX_CACHE_BYTES = 1024 * GIB
MAX_BUILD_OUTPUT_BYTES = 64 * KIB
MAX_BUILD_LOG_BYTES = 64 * MIB
BUILD_STEP_SECONDS = 900.0
PROBE_SECONDS = 30.0
WASM_TOOLS_SECONDS = 60.0
WASM_TOOLS_MEMORY_BYTES = 4096 * MIB
MAX_WASM_TOOLS_OUTPUT_BYTES = 256 * MIB
WATCH_SECONDS = 0.5
MAX_ADAPTER_BYTES = 1 * MIB  # the adapter for WASI preview 1 takes 52 KiB

# Plugins.
MAX_PLUGIN_RUNTIME_MS = 600_000
MAX_PLUGIN_OUTPUT_BYTES = 4 * MIB
MAX_PLUGIN_PROGRAM_BYTES = 256 * MIB  # copied into memory for each call
MAX_PLUGINS = 256  # manifests in one directory

# Packages and their archives.
ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_ARCHIVE_BYTES = 80 * MIB
MAX_PACKAGE_BYTES = 96 * MIB  # total size of all unpacked files of a package
MAX_PACKAGE_ENTRIES = 4096
MAX_TAR_EXTENSION_BYTES = 2 * MIB  # total size of the extended headers of a tar archive
MAX_PACKAGE_NAME_BYTES = 240
MAX_PACKAGE_DEPTH = 12

# Registries.
MAX_MANIFEST_BYTES = 1 * MIB
MAX_WASM_CONFIG_BYTES = 1 * MIB  # contains the capability file, with escapes
MAX_TOKEN_RESPONSE_BYTES = 64 * KIB
MAX_REGISTRY_REDIRECTS = 3  # per GET request
MAX_TOML_BYTES = 256 * KIB
MAX_DIGESTS_BYTES = 1 * MIB  # the digests of all files of a package
MAX_PROMPT_BYTES = 64 * KIB

# MCP servers that wasmrt connects to, and their messages.
MAX_MCP_SERVERS = 64
MAX_MCP_FILE_BYTES = 1 * MIB
MAX_MCP_TRUST_BYTES = 64 * MIB
MAX_MCP_MESSAGE_BYTES = 4 * MIB  # one message; over stdio, one line
MAX_MCP_ENTRIES = 1000  # blocks of content, tools and similar entries in one message
MAX_MCP_TOOLS = 512  # tools of one server, on all pages of its list
MAX_MCP_PAGES = 100
MAX_MCP_LIST_BYTES = 8 * MIB
MAX_MCP_WINDOW_NOTICES = 10_000  # notifications from one server within `MCP_WINDOW_SECONDS`
MAX_MCP_WINDOW_NOTICE_BYTES = 16 * MIB
MAX_MCP_WINDOW_REQUESTS = 100  # requests from one server to the client within `MCP_WINDOW_SECONDS`
MAX_MCP_OPEN_REQUESTS = 8
MAX_MCP_NOISE_LINES = 1000  # lines on a server's standard output that are not protocol messages
MCP_WINDOW_SECONDS = 60.0
MAX_MCP_STDERR_BYTES = 8 * KIB  # stored from the end of a server's standard error; the rest is read and dropped
MAX_MCP_ROUNDS = 10  # requests for more input that a server may send within one call
MCP_CONNECT_SECONDS = 60.0
MCP_LIST_SECONDS = 60.0
MCP_CALL_SECONDS = 60.0
MCP_INSTALL_SECONDS = 300.0  # one step of the installation of a server's package
MAX_MCP_PACKAGE_BYTES = 2048 * MIB  # an installed package with its dependencies
MAX_MCP_PACKAGE_FILES = 200_000
MAX_MCP_PACKAGE_FILE_BYTES = 16 * MIB  # a lock file or manifest of a package
MCP_IDLE_SECONDS = 1800.0  # idle time after which a session of the older HTTP protocol is closed
MCP_STOP_SECONDS = 2.0
"""The time for a program to exit after its standard input was closed, and again after it was terminated."""
MAX_MCP_QUESTION_CHARS = 2000  # one question from a server to the user

# A shell session: data that is passed from one command to the next, not a process.
MAX_SHELL_SESSIONS = 256
SHELL_SESSION_IDLE_SECONDS = 1800.0
SHELL_SESSION_AGE_SECONDS = 12 * 3600.0
MAX_SHELL_SESSION_REPORT_BYTES = 512 * KIB  # state that a command reports when it ends
MAX_SHELL_SESSION_VARIABLES = 128
MAX_SHELL_SESSION_BYTES = 32 * KIB  # the directory and the variables, as serialized for the next command

# The egress proxy of a confined program, which connects to granted hosts only.
MAX_PROXY_HELLO_BYTES = 16 * KIB + 512  # a TLS ClientHello, with its record headers
PROXY_HEAD_SECONDS = 10.0  # time for a request's header, or for a ClientHello
PROXY_IDLE_SECONDS = 300.0  # idle time after which a tunnel is closed
PROXY_TUNNEL_SECONDS = 3600.0
MAX_PROXY_TUNNEL_BYTES = GIB  # total size for both directions of one tunnel
PROXY_BODY_BYTES = 64 * MIB  # body of one request or response in plain HTTP

# The user's desktop, and pages in a browser.
MAX_CLIPBOARD_BYTES = 1 * MIB
MAX_NOTIFICATION_TITLE_CHARS = 200
MAX_NOTIFICATION_BODY_CHARS = 2000
MAX_PAGE_REQUESTS = 200  # requests of one page in a browser, including all resources of the page
MAX_PAGE_BYTES = 24 * MIB
MAX_PAGE_PART_BYTES = 5 * MIB
MAX_PAGE_CHARS = 50_000
PAGE_SECONDS = 45.0
MAX_SCREENSHOT_PIXELS = 2_400_000  # a larger screenshot is reduced; 1920 x 1200 is 2,304,000
MAX_SCREENSHOT_BYTES = 2_500_000
MAX_SCREEN_COORDINATE = 32_767  # X11 has 16-bit coordinates
MAX_TYPED_CHARS = 2000
MAX_INPUT_REPEATS = 50  # presses of a key combination, or steps of a wheel
