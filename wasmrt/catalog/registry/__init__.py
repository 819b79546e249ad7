"""Sources of components and packages on other machines."""

from __future__ import annotations

from wasmrt.catalog.registry._client import SCHEME, Reference, Registry, Send, parse_reference
from wasmrt.catalog.registry._oci import Access, OciSource, Sign, push_component, push_package
from wasmrt.catalog.registry._search import Listed, Listing, list_tools, with_tag
from wasmrt.catalog.registry._url import Download, UrlSource, check_url, fetch_capability_file, fetch_signature

__all__ = [
    "SCHEME", "Access", "Download", "Listed", "Listing", "OciSource", "Reference", "Registry", "Send", "Sign",
    "UrlSource", "check_url", "fetch_capability_file", "fetch_signature", "list_tools", "parse_reference",
    "push_component", "push_package", "with_tag",
]  # fmt: skip
