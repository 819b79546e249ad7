"""Bounds of calls, with their units in the names. The packages that enforce them import them from here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Limits of one call of one tool.

    The defaults fit every guest language that was measured: a Python guest needs 12.4 MiB of memory,
    38 core instances and 5,700 table elements, a JavaScript one 7,700 table elements.

    Raises:
        ConfigurationError: a limit is zero, negative or not a number.

    Example:
        >>> from wasmrt import ResourceLimits
        >>> ResourceLimits(memory_bytes=16 * 1024 * 1024).memory_bytes
        16777216
    """

    memory_bytes: int = 64 * MIB  # all linear memories of the store together
    fuel: int = 500_000_000  # instructions, roughly: enough for a few MB of JSON work
    timeout_seconds: float = 60.0  # until the result is scanned, with waits and host calls
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
    """Metering of fuel, and the budget of a call if the tool sets none.

    Example:
        >>> from wasmrt import FuelConfig
        >>> FuelConfig(limit=100_000_000)
        FuelConfig(enabled=True, limit=100000000)
    """

    enabled: bool = True
    limit: int | None = None


# Per call: what a guest may ask of the host.
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

# Code mode: one program, and a run of it, which may be continued after a person has answered.
MAX_CODE_BYTES = 64 * KIB
MAX_CODE_CALLS = 256
"""Calls of tools in one run."""
MAX_CODE_CALL_BYTES = 1 * MIB
"""Params of one call."""
MAX_CODE_RUN_BYTES = 8 * MIB
"""Params and answers of all calls of a run together."""
CODE_LIMITS = ResourceLimits(
    memory_bytes=128 * MIB, fuel=10_000_000_000, timeout_seconds=120.0, output_bytes=4 * MIB, table_elements=40_000
)
"""Of the interpreter, each time that a program is run: an interpreter takes a hundred instructions for one."""
MAX_CODE_RUNS = 32
"""Runs of one user that wait for a person."""
CODE_RUN_SECONDS = 24 * 3600.0
"""A run that waits is kept so long after it was last continued."""
MAX_STUBS = 50
"""Descriptions of tools on one page of a search."""
MAX_STUB_BYTES = 4 * KIB
"""Of one description; a schema that takes more is cut."""
MAX_STUBS_BYTES = 24 * KIB
"""Of one page."""

# Params and results.
MAX_PARAMS_BYTES = 8 * MIB
MAX_JSON_DEPTH = 64
MAX_JSON_PARTS = 100_000
MAX_TOOL_OUTPUT_BYTES = 16 * MIB
"""Of a tool outside of the sandbox; a component has a cap in its limits."""
MAX_ERROR_TEXT_BYTES = 4 * KIB

# Programs of `wasi:cli/command`; all of their arguments and input are within MAX_PARAMS_BYTES.
MAX_PROGRAM_ARGUMENTS = 1024
MAX_PROGRAM_ARGUMENT_CHARS = 32 * KIB
PROGRAM_TAIL_CHARS = 2 * KIB
"""The end of what a program printed, in the message of its failure."""

# What a component says of itself, read once at prepare.
MAX_DESCRIPTION_BYTES = 4 * KIB
MAX_SCHEMA_BYTES = 64 * KIB
MAX_SCHEMA_DEPTH = 16
MAX_SCHEMA_PARTS = 10_000
MAX_TOOLS_PER_COMPONENT = 128

# Component files.
COMPONENT_WARN_BYTES = 10 * MIB
COMPONENT_MAX_BYTES = 64 * MIB
MAX_TOOL_VERSIONS = 16
MAX_COMPONENT_NAMES = 2_000
MAX_COMPONENT_NAMES_BYTES = 256 * KIB

# Counts of a component, held before the compiler sees it. Beside each the most that a real guest was seen to have.
MAX_COMPONENT_SECTIONS = 20_000  # 750, a JavaScript guest
MAX_COMPONENT_DEPTH = 64  # 3
MAX_COMPONENT_TYPE_BYTES = 1 * MIB
MAX_COMPONENT_DEFINITIONS = 100_000
"""As they are written, and again as they are once every instantiation is expanded."""
MAX_CORE_INSTANCES = 4_096
MAX_CANONICAL_FUNCTIONS = 4_096
MAX_CORE_TYPES = 50_000
MAX_COMPONENT_FUNCTIONS = 200_000  # 13,500, a Python guest, as all that follow
MAX_FUNCTION_BYTES = 6 * MIB
MAX_FUNCTION_BRANCHES = 450_000
MAX_FUNCTION_BLOCK_WORK = 12_000_000
MAX_FUNCTION_READ_WORK = 40_000_000
"""Over blocks that never end too: the compiler reads them, and remembers every local for each."""
MAX_FUNCTION_VALUE_WORK = 300_000_000
MAX_FUNCTION_LOOP_WORK = 2_000_000_000
MAX_COMPONENT_LOOP_WORK = 10_000_000_000
MAX_DECODED_CODE_BYTES = 8 * MIB
"""Of a component's functions that are over one of these bounds by a first count; decoding takes seconds."""

# HTTP, unless a grant says less.
DEFAULT_MAX_REQUEST_BYTES = 1 * MIB
DEFAULT_MAX_RESPONSE_BYTES = 10 * MIB
DEFAULT_HTTP_TIMEOUT_SECONDS = 30.0
DEFAULT_REQUESTS_PER_MINUTE = 60
DEFAULT_REQUESTS_PER_HOUR = 1000
MAX_URL_BYTES = 8 * KIB
MAX_HEADERS = 128
MAX_HEADER_BYTES = 64 * KIB
MAX_HELD_HTTP_BYTES = 64 * MIB
MAX_OPEN_ANSWERS = 8

# Workspace files.
MAX_WORKSPACE_FILE_BYTES = 5 * MIB
MAX_WORKSPACE_ENTRIES = 10_000
MAX_WORKSPACE_BYTES_PER_CALL = 64 * MIB
DEFAULT_WRITE_FILE_BYTES = MAX_WORKSPACE_FILE_BYTES
"""Of one file, where a grant does not say: one that is written can be read."""
DEFAULT_WRITE_BYTES = 16 * MIB
MAX_WRITE_BYTES = MAX_WORKSPACE_BYTES_PER_CALL
"""Of one call, and so of one file, whatever a grant says."""
DEFAULT_WRITE_FILES = 100
MAX_WRITE_FILES = 10_000
MAX_PATH_BYTES = 4 * KIB

# The journal that changes of the workspace are taken back by. A change that does not fit is refused.
MAX_UNDO_FILE_BYTES = 32 * MIB
"""Previous content of one file."""
MAX_UNDO_CALL_BYTES = 64 * MIB
MAX_UNDO_BYTES = 512 * MIB
"""Of all calls; the oldest of the user who has the most make room for new ones."""
MAX_UNDO_CALLS = 1000

# An agent's memory, of one user; its tools' parameters have bounds of their own in their schemas.
MAX_MEMORY_DOCUMENT_BYTES = 1 * MIB
MAX_MEMORY_BYTES = 64 * MIB
"""Of all documents with their history, unless the operator says otherwise; old versions make room for new ones."""
MAX_MEMORY_DOCUMENTS = 10_000
MAX_MEMORY_CHUNKS = 100_000
"""Pieces of documents, as they are found."""
MAX_MEMORY_VERSIONS = 100
"""Kept of a document besides what it holds now, unless the operator says otherwise."""
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

# Receipts.
MAX_RECEIPT_BYTES = 1 * MIB
"""Of one line; decisions that make it longer are counted and left out."""
DEFAULT_SEGMENT_BYTES = 16 * MIB
MIN_SEGMENT_BYTES = 64 * KIB
RECEIPT_LOCK_SECONDS = 10.0
"""Time that a call waits for another process that writes a receipt."""
MAX_TORN_BYTES = 4 * KIB
"""Kept of a line that a crash cut off."""
MAX_RECORDING_BYTES = 8 * MIB
"""Of one call; one that is longer is dropped."""
MAX_RECORDINGS_BYTES = 256 * MIB
"""Of a folder; the oldest recordings make room for new ones."""

# Secrets.
MIN_SECRET_CHARS = 6
"""Below this a secret is not looked for, because it would redact ordinary words, and so not sent either."""
MAX_SECRET_BYTES = 64 * KIB
MAX_USER_BYTES = 256
MAX_SECRETS_FILE_BYTES = 8 * MIB
MAX_ENV_FILE_BYTES = 1 * MIB

# Approvals and confirmation tokens.
APPROVAL_TIMEOUT_SECONDS = 300.0
MAX_PENDING_APPROVALS = 256
MAX_APPROVAL_BYTES = 1 * MIB
"""Params and preview of one request that waits in the queue."""
MAX_PENDING_APPROVAL_BYTES = 16 * MIB
MAX_DECIDED_APPROVALS = 10_000
MAX_REMEMBERED_ANSWERS = 10_000
MAX_ANSWER_NOTE_BYTES = 1 * KIB
APPROVAL_POLL_SECONDS = 0.25
"""At most, between two looks of a caller that waits for an answer by another process."""
ACCESS_REQUEST_SECONDS = 24 * 3600.0
"""A request for one entry more of a grant waits so long."""
ACCESS_ONCE_SECONDS = 3600.0
"""From the answer `once` until the call that it is for."""
MAX_ACCESS_PER_CALL = 4
"""New requests of one call."""
MAX_ACCESS_PER_TOOL = 8
"""Requests that wait for one user and one tool."""
MAX_ACCESS_PER_USER = 32
MAX_PENDING_ACCESS = 256
MAX_DECIDED_ACCESS = 1_000
MAX_ACCESS_PARAMS_BYTES = 16 * KIB
MAX_TOKEN_BYTES = 8 * KIB
MAX_TOKEN_TOOLS = 64
MAX_TOKEN_TTL_SECONDS = 24 * 3600.0
MAX_TOKEN_USES = 1000
MAX_LIVE_TOKENS = 100_000
"""Tokens that were redeemed and have not expired yet."""

# Flows: what a trace keeps of what it has seen.
MAX_FLOW_BYTES = 4 * MIB
"""Of the text that strangers could write, and of the marks of what is private, each."""
MAX_FLOW_SAID_BYTES = 256 * KIB
"""Words of the person, and as much again of what is known."""
MAX_FLOW_SOURCES = 1024
"""Results of which the sentence is shown that a value came from."""
MAX_FLOW_IDS = 4096
"""Things that are known by an identifier."""
MAX_FLOW_VALUES = 256
"""Values of one call that are looked up; a call with more is asked about."""
MAX_FLOW_LINKS = 8
"""Links of one text of which one question can be for all."""
MAX_FLOW_TRACES = 1024
"""Traces that an agent's tools keep at a time."""

# Outgoing connections.
MAX_DNS_ANSWERS = 64
MAX_DNS_LOOKUPS = 64
MAX_CONNECT_ATTEMPTS = 3
CONNECT_TIMEOUT_SECONDS = 10.0
KEEPALIVE_SECONDS = 30.0
MAX_CONNECTIONS_PER_ORIGIN = 128
MAX_IDLE_CONNECTIONS = 256
MAX_ASYNC_HTTP_THREADS = 64
"""Requests and reads that one asynchronous transport waits for at a time, a thread each."""
MAX_CONTENT_CODINGS = 1
MAX_GZIP_MEMBERS = 1024
MAX_RATE_KEYS = 50_000
REDIS_TIMEOUT_SECONDS = 0.5
REDIS_PAUSE_SECONDS = 5.0
"""Time after a fault of Redis in which nobody waits for it."""
MAX_OWN_RESPONSE_BYTES = 1 * MIB
OAUTH_TIMEOUT_SECONDS = 20.0
OAUTH_REFRESH_MARGIN_SECONDS = 60.0
OAUTH_LOGIN_SECONDS = 300.0

# The operator's configuration file.
MAX_CONFIG_FILE_BYTES = 256 * KIB
MAX_CA_FILE_BYTES = 16 * MIB
"""The authorities of a system take 0.2 MiB."""

# Making tools: what a template, a project and its test cases may hold, and how long a build step may take.
MAX_PROJECT_FILES = 10_000
MAX_BUILD_INPUT_BYTES = 256 * MIB
MAX_BUILD_RECORD_BYTES = 4 * MIB
MAX_BUILD_OUTPUT_BYTES = 64 * KIB
MAX_BUILD_LOG_BYTES = 64 * MIB
BUILD_STEP_SECONDS = 900.0
PROBE_SECONDS = 30.0
WASM_TOOLS_SECONDS = 60.0
WASM_TOOLS_MEMORY_BYTES = 4096 * MIB
MAX_WASM_TOOLS_OUTPUT_BYTES = 256 * MIB
WATCH_SECONDS = 0.5
MAX_ADAPTER_BYTES = 1 * MIB
"""The adapter for WASI preview 1 takes 52 KiB."""

# Plugins.
MAX_PLUGIN_RUNTIME_MS = 600_000
MAX_PLUGIN_OUTPUT_BYTES = 16 * MIB
MAX_PLUGINS = 256
"""Manifests of one folder."""

# Packages and their archives.
ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_ARCHIVE_BYTES = 80 * MIB
MAX_PACKAGE_BYTES = 96 * MIB
"""All files of a package together, unpacked."""
MAX_PACKAGE_ENTRIES = 4096
MAX_PACKAGE_NAME_BYTES = 240
MAX_PACKAGE_DEPTH = 12
MAX_MANIFEST_BYTES = 1 * MIB
MAX_PROMPT_BYTES = 64 * KIB

# MCP servers of others, and what they say.
MAX_MCP_SERVERS = 64
MAX_MCP_FILE_BYTES = 1 * MIB
MAX_MCP_TRUST_BYTES = 64 * MIB
MAX_MCP_MESSAGE_BYTES = 4 * MIB
"""Of one message; over standard streams of one line."""
MAX_MCP_TOOLS = 512
"""Of one server, on all pages of its list together."""
MAX_MCP_PAGES = 100
MAX_MCP_LIST_BYTES = 8 * MIB
MAX_MCP_WINDOW_NOTICES = 10_000
"""Messages of a server that answer nothing, within `MCP_WINDOW_SECONDS`."""
MAX_MCP_WINDOW_NOTICE_BYTES = 16 * MIB
MAX_MCP_WINDOW_REQUESTS = 100
"""Questions of a server to its client, in the same time."""
MAX_MCP_OPEN_REQUESTS = 8
MAX_MCP_NOISE_LINES = 1000
"""Lines of a program that speaks on its standard output of something else."""
MCP_WINDOW_SECONDS = 60.0
MAX_MCP_STDERR_BYTES = 8 * KIB
"""The end of what a server printed to its standard error; the rest is read and dropped."""
MAX_MCP_ROUNDS = 10
"""Times that a server may ask for more input within one call."""
MCP_CONNECT_SECONDS = 60.0
MCP_LIST_SECONDS = 60.0
MCP_CALL_SECONDS = 60.0
MCP_IDLE_SECONDS = 1800.0
"""Without a call, after which a session of the older protocol over HTTP is ended."""
MCP_STOP_SECONDS = 2.0
"""For a program to end once its standard input is closed, and again once it is told to."""
MAX_MCP_QUESTION_CHARS = 2000
"""Of a server's question to a person."""

# A session of the shell: data between two commands, and no process.
MAX_SHELL_SESSIONS = 256
SHELL_SESSION_IDLE_SECONDS = 1800.0
SHELL_SESSION_AGE_SECONDS = 12 * 3600.0
MAX_SHELL_SESSION_REPORT_BYTES = 512 * KIB
"""Of what a command tells at its end."""
MAX_SHELL_SESSION_VARIABLES = 128
MAX_SHELL_SESSION_BYTES = 32 * KIB
"""Of the directory and the variables, as they are written for the next command."""

# The outlet of a confined program: a proxy that speaks to granted hosts alone.
MAX_PROXY_HELLO_BYTES = 16 * KIB + 512
"""Of a TLS ClientHello, with its records' heads."""
PROXY_HEAD_SECONDS = 10.0
"""For the head of a request, and for a ClientHello."""
PROXY_IDLE_SECONDS = 300.0
"""For which a tunnel may be silent."""
PROXY_TUNNEL_SECONDS = 3600.0
MAX_PROXY_TUNNEL_BYTES = GIB
"""Of one tunnel, both directions together."""
PROXY_BODY_BYTES = 64 * MIB
"""Of a request or a response in plain HTTP."""

# The person's desktop, and a page of a browser.
MAX_CLIPBOARD_BYTES = 1 * MIB
MAX_NOTIFICATION_TITLE_CHARS = 200
MAX_NOTIFICATION_BODY_CHARS = 2000
MAX_PAGE_REQUESTS = 200
"""Of one page that a browser opens, with all that it loads."""
MAX_PAGE_BYTES = 24 * MIB
MAX_PAGE_PART_BYTES = 5 * MIB
MAX_PAGE_CHARS = 50_000
PAGE_SECONDS = 45.0
