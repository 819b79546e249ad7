"""The search provider for the tool `web_search`. Each provider has a separate capability file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.capabilities.file import parse
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import DEFAULT_PORTS, InvalidUrlError, ParsedUrl, parse_url

PROVIDERS = ("brave", "tavily", "searxng")
_FOLDER = Path(__file__).parent / "shipped"
_OWN_SERVER = "searxng"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch:
    """An operator's choice of a search provider.

    Raises:
        ConfigurationError: the provider is unknown, or its URL is missing, unnecessary or invalid.
    """

    provider: str
    """`brave`, `tavily` or `searxng`."""
    url: str | None = None
    """The URL of a SearxNG server, such as `https://search.example.com/`. The URLs of other providers are fixed."""
    cost_per_search: Decimal | None = None
    """The price of a search in the operator's currency, for estimates. None means unknown, or zero for SearxNG."""

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise ConfigurationError(f'"provider" must be one of {", ".join(PROVIDERS)}')
        if self.provider != _OWN_SERVER and self.url is not None:
            raise ConfigurationError(
                f'"url" can only be set for the provider {_OWN_SERVER}',
                hint=f'remove "url": the URL of {self.provider} is fixed',
            )
        if self.provider == _OWN_SERVER:
            _read_address(self.url)
        cost = self.cost_per_search
        if cost is not None and not (isinstance(cost, Decimal) and cost.is_finite() and 0 <= cost <= 1000):
            raise ConfigurationError(
                '"cost_per_search" must be a price from 0 to 1000',
                hint="write it like 0.005",
            )

    @property
    def sidecar(self) -> str:
        """The provider's capability file."""
        return (_FOLDER / f"web_search.{self.provider}.capabilities.json").read_text("utf-8")

    @property
    def grant(self) -> Capabilities:
        """The capabilities of the tool: it may only send requests to this provider."""
        granted = parse(self.sidecar).capabilities
        if self.provider != _OWN_SERVER:
            return granted
        address, http = _read_address(self.url), _get_http(granted)
        port = () if address.port == DEFAULT_PORTS[address.scheme] else (address.port,)
        path = f"{address.path.rstrip('/')}{http.allowlist[0].path}"
        own = EndpointPattern(address.host, None, http.allowlist[0].methods, port, (address.scheme,), path)
        return replace(granted, http=replace(http, allowlist=(own,)))

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings that the tool gets: the provider, and the URL for searches."""
        entry = _get_http(self.grant).allowlist[0]
        scheme = entry.schemes[0]
        host = f"[{entry.host_pattern}]" if ":" in entry.host_pattern else entry.host_pattern
        port = f":{entry.ports[0]}" if entry.ports else ""
        return {"provider": self.provider, "url": f"{scheme}://{host}{port}{entry.path}"}

    @property
    def cost(self) -> Decimal | None:
        """The price of one search, or None if it is unknown."""
        return Decimal(0) if self.cost_per_search is None and self.provider == _OWN_SERVER else self.cost_per_search


def _get_http(grant: Capabilities) -> HttpCapability:
    assert grant.http is not None
    return grant.http


def _read_address(url: str | None) -> ParsedUrl:
    hint = 'write it like url = "https://search.example.com/"'
    if url is None:
        raise ConfigurationError(f'"url" is missing: {_OWN_SERVER} runs on your own server', hint=hint)
    try:
        address = parse_url(url)
        EndpointPattern(address.host, path=address.path)
    except (InvalidUrlError, ConfigurationError) as error:
        raise ConfigurationError(f'"url" is invalid: {error.message}', hint=hint) from None
    if address.query is not None:
        raise ConfigurationError('"url" must not contain a query', hint=hint)
    return address
