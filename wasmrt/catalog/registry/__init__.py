"""Sources of components and packages on other machines."""

from __future__ import annotations

from wasmrt.catalog.registry._url import Download, UrlSource, check_url, fetch_capability_file, fetch_signature

__all__ = ["Download", "UrlSource", "check_url", "fetch_capability_file", "fetch_signature"]
