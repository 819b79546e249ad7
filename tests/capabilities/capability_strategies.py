"""Random capabilities and requests that overlap often enough to test decisions."""

from hypothesis import strategies as st

from wasmrt.capabilities import (
    METHODS,
    Capabilities,
    ConfigStoreCapability,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    OAuthConfig,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
)

PUBLIC_LITERAL = "8.8.8.8"
HOSTS = ["api.example.com", "a.api.example.com", "example.com", "other.org", PUBLIC_LITERAL]
INTERNAL = ["10.0.0.7", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "localhost", "metadata.google.internal"]
PATTERNS = [*HOSTS, *INTERNAL, "*.example.com", "*.api.example.com"]
PATHS = ["/", "/v1", "/v1/", "/v1/users", "/v1/%75sers/", "/v1/users%2Fadmin", "/v1/usersX", "/v2", "//v1"]
PREFIXES = [None, *PATHS, "/*", "/*/", "/v1/*/", "/*/users", "/v1/*/x/*"]
PORTS = [80, 443, 8443]
FILES = ["context", "context/a.md", "context/deep/b.md", "contextual/x", "notes/c.md"]
FOLDERS = ["", "context", "context/", "context/deep/", "notes/", "contextual"]
SECRETS = ["openai_key", "openai_org", "github_token"]
GLOBS = [*SECRETS, "openai_*", "open*", "*"]

subset = lambda items, most=3: st.lists(st.sampled_from(items), max_size=most).map(tuple)  # noqa: E731


def endpoint(host, place, methods, ports, schemes, public_only):
    path, is_exact = place
    entry = EndpointPattern(host, None, methods, ports, schemes, public_only=public_only or host == "*")
    return entry if path is None else entry.with_path(path) if is_exact else entry.with_path_prefix(path)


def requests(allowlist, credentials, *numbers):
    """Requests that a grant may have: any_public_host excludes credentials."""
    is_any = any(entry.host_pattern == "*" for entry in allowlist)
    return HttpCapability(allowlist, {} if is_any else credentials, *numbers)


endpoints = st.builds(
    endpoint,
    st.sampled_from([*PATTERNS, "*"]),
    st.tuples(st.sampled_from(PREFIXES), st.booleans()),
    subset(METHODS[:4]),
    subset(PORTS),
    st.sampled_from([("https",), ("http",), ("https", "http")]),
    st.booleans(),
)
locations = st.sampled_from(
    [
        CredentialLocation.bearer(),
        CredentialLocation.basic("me"),
        CredentialLocation.header("X-Api-Key", "Key "),
        CredentialLocation.query_param("key"),
        CredentialLocation.url_path("TOKEN"),
        CredentialLocation.aws_sigv4("eu-central-1", "s3"),
        CredentialLocation.hmac_sha256("X-Signature", "sha256=", encoding="base64", timestamp_name="X-Time"),
    ]
)
credentials = st.builds(
    CredentialMapping,
    secret_name=st.sampled_from(SECRETS),
    location=locations,
    host_patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple),
    path_patterns=subset([p for p in PREFIXES if p]),
    optional=st.booleans(),
    ports=st.just(()) | subset(PORTS),
)
rates = st.builds(RateLimitConfig, st.integers(1, 100), st.integers(1, 2000))
https = st.builds(
    requests,
    st.lists(endpoints, max_size=4).map(tuple),
    st.dictionaries(st.sampled_from(["one", "two", "three"]), credentials, max_size=3),
    rates,
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.one_of(st.integers(1, 3600), st.floats(0.001, 3600)),
)
limits = st.builds(
    ToolLimits,
    memory_bytes=st.none() | st.integers(1, 2**40),
    fuel=st.none() | st.integers(1, 2**40),
    timeout_seconds=st.none() | st.floats(0.001, 86400),
)
writings = st.builds(
    WorkspaceWriteCapability,
    subset(FOLDERS),
    max_file_bytes=st.integers(1, 2**20),
    max_bytes=st.integers(1, 2**26),
    max_files=st.integers(1, 1000),
    remove=st.booleans(),
)
logins = st.lists(
    st.builds(
        lambda secret, client, scopes: LoginCapability(
            secret,
            secret,
            OAuthConfig(
                authorization_url="https://login.example.com/agree",
                token_url="https://login.example.com/token",
                client_id=client,
                scopes=scopes,
            ),
        ),
        st.sampled_from(SECRETS),
        st.sampled_from(["one", "two"]),
        st.sets(st.sampled_from(["read", "write", "admin"])).map(lambda found: tuple(sorted(found))),
    ),
    max_size=2,
    unique_by=lambda login: login.secret_name,
).map(tuple)
capabilities = st.builds(
    Capabilities,
    st.none() | https,
    st.none() | st.builds(WorkspaceCapability, subset(FOLDERS)),
    st.none() | st.builds(SecretsCapability, subset(GLOBS)),
    st.none()
    | st.builds(ToolInvokeCapability, st.dictionaries(st.sampled_from("abc"), st.sampled_from(["t1", "t2"])), rates),
    limits,
    workspace_write=st.none() | writings,
    config_store=st.none()
    | st.builds(ConfigStoreCapability, subset(["units", "units=metric", "language=en", "language"])),
    logins=logins,
)
urls = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
    st.sampled_from(["https", "http"]),
    st.sampled_from([*HOSTS, *INTERNAL, "notexample.com", "api.example.com.evil.org"]),
    st.sampled_from(["", ":80", ":443", ":8443", ":22"]),
    st.sampled_from(
        [*PATHS, "/v1/users/7", "/v1/7/x/*", "/v1/a*b/", "/v1//x/7", "/v1/a%252Fb/x/7", "/v1/%2e%2e/admin", "/v1?x=1"]
    ),
)
