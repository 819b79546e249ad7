"""Turns a capability file's text into what it asks for; any mistake refuses it, and all are told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from wasmrt.capabilities._credential import CredentialMapping
from wasmrt.capabilities._endpoint import EndpointPattern
from wasmrt.capabilities._json import Problems, child, read_json
from wasmrt.capabilities._model import Capabilities, ToolLimits
from wasmrt.capabilities._powers import (
    HttpCapability,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
)
from wasmrt.capabilities.file._docs import SECTIONS
from wasmrt.capabilities.file._fields import INVALID
from wasmrt.capabilities.file._model import CapabilityFile
from wasmrt.capabilities.file._sections import NESTED, ROOT
from wasmrt.errors import CapabilityFileError, WasmrtError
from wasmrt.limits import MAX_DESCRIPTION_BYTES

if TYPE_CHECKING:
    from wasmrt.capabilities._auth import AuthSection, SetupSecret

T = TypeVar("T")


def parse(data: str | bytes) -> CapabilityFile:
    """Read a capability file's text.

    Raises:
        CapabilityFileError: with every mistake, each at its JSON path.
    """
    problems = Problems()
    tree = read_json(data, problems)
    if tree is not None or not problems:
        tree = _raise_nested(ROOT.read(tree, "", problems), problems)
    file = None if tree is INVALID or problems else _build(tree, problems)
    if file is None or problems:
        raise _error(problems)
    return file


def _error(problems: Problems) -> CapabilityFileError:
    first_path, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return CapabilityFileError(
        f"the capability file cannot be used: {first_path}: {first}{more}",
        problems=tuple(problems.found),
        hint="wasmrt caps check FILE lists every mistake",
    )


def _raise_nested(tree: Any, problems: Problems) -> Any:
    """Sections under `capabilities` count as if they stood at the top; in both places is a mistake."""
    if tree is INVALID or NESTED not in tree:
        return tree
    nested = tree.pop(NESTED)
    for key in nested:
        if key in tree:
            problems.add(child(NESTED, key), f"{key!r} also stands at the top; keep one")
    return nested | tree


def _build(tree: dict[str, Any], problems: Problems) -> CapabilityFile | None:
    def attempt(path: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except WasmrtError as error:
            problems.add(path, f"{error.message}{f' ({error.hint})' if error.hint else ''}")
            return None

    workspace, secrets, invoke = tree.get("workspace"), tree.get("secrets"), tree.get("tool_invoke")
    capabilities = Capabilities(
        http=_build_http(tree["http"], attempt) if "http" in tree else None,
        workspace_read=WorkspaceCapability(workspace["allowed_prefixes"]) if workspace else None,
        secrets=SecretsCapability(secrets["allowed_names"]) if secrets is not None else None,
        tool_invoke=attempt("tool_invoke", lambda: _build_invoke(invoke)) if invoke is not None else None,
        limits=ToolLimits(**tree.get("limits", {})),
    )
    auth, setup = _build_about_secrets(tree)
    description = tree.get("description")
    return CapabilityFile(
        capabilities=capabilities,
        description=None if description is None else _cut(description),
        version=tree.get("version"),
        wit_version=tree.get("wit_version"),
        auth=auth,
        setup_secrets=setup,
        sections={key: tree[key] for key in SECTIONS if key in tree},
    )


def _build_http(tree: dict[str, Any], attempt: Callable[[str, Callable[[], Any]], Any]) -> HttpCapability | None:
    entries = [
        attempt(f"http.allowlist[{index}]", lambda entry=entry: _build_endpoint(entry))  # type: ignore[misc]
        for index, entry in enumerate(tree.get("allowlist", []))
    ]
    credentials = [
        attempt(child("http.credentials", name), lambda name=name, item=item: _build_credential(name, item))  # type: ignore[misc]
        for name, item in tree.get("credentials", {}).items()
    ]
    if None in entries or None in credentials:
        return None
    numbers = {k: tree[k] for k in ("max_request_bytes", "max_response_bytes", "timeout_seconds") if k in tree}
    rate = RateLimitConfig(**tree.get("rate_limit", {}))
    made: HttpCapability | None = attempt(
        "http", lambda: HttpCapability(tuple(entries), tuple(credentials), rate, **numbers)
    )
    return made


def _build_endpoint(tree: dict[str, Any]) -> EndpointPattern:
    ports = tree.get("ports", [tree["port"]] if "port" in tree else [])
    schemes = tree.get("schemes", [tree.get("scheme", "https")])
    return EndpointPattern(tree["host"], tree.get("path_prefix"), tuple(tree.get("methods", ())), ports, schemes)


def _build_credential(name: str, tree: dict[str, Any]) -> CredentialMapping:
    return CredentialMapping(
        secret_name=tree["secret_name"],
        location=tree["location"],
        host_patterns=tree["host_patterns"],
        path_patterns=tree.get("path_patterns", ()),
        optional=tree.get("optional", False),
        name=name,
    )


def _build_invoke(tree: dict[str, Any]) -> ToolInvokeCapability:
    return ToolInvokeCapability(tuple(tree["aliases"].items()), RateLimitConfig(**tree.get("rate_limit", {})))


def _build_about_secrets(tree: dict[str, Any]) -> tuple[AuthSection | None, tuple[SetupSecret, ...]]:
    if "auth" not in tree and "setup" not in tree:
        return None, ()
    from wasmrt.capabilities._auth import build_auth, build_setup

    return build_auth(tree["auth"]) if "auth" in tree else None, build_setup(tree.get("setup", {}))


def _cut(text: str) -> str:
    return text.encode()[:MAX_DESCRIPTION_BYTES].decode(errors="ignore")
