"""The operator's policy for installations: allowed hosts, and required signers for sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from wasmrt.catalog.signing import Signer
from wasmrt.core.errors import SourceError
from wasmrt.core.setting_commands import append_command
from wasmrt.core.url import InvalidUrlError, ParsedUrl, parse_url

INDEX_SUFFIXES = (".json", ".toml")
"""Suffixes of index files, which list tools."""


class RequiredSigner(NamedTuple):
    """A signer that tools from a source must have. If several have the same source, one of them suffices."""

    source: str
    """The beginning of a URL, or an absolute folder."""
    key: Path | None = None
    """The file with the public key, or None for a keyless signer."""
    identity: str = ""
    issuer: str = ""
    repository: str = ""
    """The fields of a keyless signer, as in `Signer`; the repository is optional."""

    def read(self) -> Signer:
        """Return the signer.

        Raises:
            SourceError: the key cannot be read.
        """
        if self.key is None:
            return Signer("", self.identity, self.issuer, self.repository)
        from wasmrt.catalog.signing.keys import read_signer  # loads cryptography

        return read_signer(self.key)


class InstallPolicy(NamedTuple):
    """The section [install] of the operator's file. By default, everything is allowed."""

    hosts: tuple[str, ...] | None = None
    """Hosts in URLs of sources, with an optional port; None allows all hosts."""
    require_signatures: bool = False
    """True to refuse tools that count as unsigned."""
    signers: tuple[RequiredSigner, ...] = ()
    trusted_root: Path | None = None
    """The file with the trusted root for keyless signatures; None for the one in the package `sigstore`."""

    search: tuple[str, ...] = ()
    """The lists of tools that `wasmrt search` and `tool_search` read: paths and URLs as in `list_tools`."""

    def check_source(self, url: str) -> None:
        """Check the URL of a source or of a redirect, before anything is fetched from it.

        Raises:
            SourceError: the URL is invalid, or its host is not allowed.
        """
        parsed = _parse(url)
        if self.hosts is None or {parsed.host, f"{parsed.host}:{parsed.port}"} & {*self.hosts}:
            return
        raise SourceError(
            f"the operator has not allowed installations from {parsed.host}",
            code="policy", hint=f"an operator can allow it: {append_command('install.hosts', 'HOST')}",
        )  # fmt: skip

    def list_signers(self, source: str) -> tuple[Signer, ...]:
        """Return the signers of which one is required for a source, a URL or an absolute path.

        SECURITY: only the signers with the longest matching prefix count. A signer for a whole host must not suffice
        for a part of it that has its own signer.
        """
        place = _split(source)
        found = [(prefix, each) for each in self.signers if place[: len(prefix := _split(each.source))] == prefix]
        longest = max((len(prefix) for prefix, _ in found), default=0)
        return tuple(each.read() for prefix, each in found if len(prefix) == longest)

    def check_signer(self, source: str, signer: Signer | None, problem: str = "") -> None:
        """Check the verified signer of a source's content.

        `signer` is None if the content counts as unsigned; `problem` is the reason if it nevertheless has a signature.

        Raises:
            SourceError: the policy requires a signature, or another signer.
        """
        needed = self.list_signers(source)
        if needed and not (signer and any(map(signer.satisfies, needed))):
            raise SourceError(
                f"the operator requires that this source is signed by {' or '.join(map(str, needed))}, "
                f"got {'no signature' if signer is None else signer}",
                code="policy", hint="to show the rule: wasmrt config show install",
            )  # fmt: skip
        if self.require_signatures and signer is None:
            got = f", got not signed ({problem})" if problem else ""
            raise SourceError(
                f"the operator requires that tools are signed{got}", code="policy",
                hint="pass the publisher's public key with --key; to sign your own tools: wasmrt sign",
            )  # fmt: skip


def check_list(text: str) -> None:
    """Check the path or URL of a list of tools, without reading it.

    Raises:
        SourceError: it is not the path or https URL of an index file, a host as `https://HOST`, or `oci://HOST/PREFIX`.
    """
    scheme, mark, rest = text.partition("://")
    if mark:
        parsed = _parse(text)
        is_host = parsed.path in ("", "/") and "?" not in text
        is_valid = scheme == "oci" or (scheme == "https" and (is_host or text.endswith(INDEX_SUFFIXES)))
    else:
        is_valid = text.endswith(INDEX_SUFFIXES)
    if not is_valid or "#" in rest:
        raise SourceError(
            f"{text!r:.200} is not a list of tools",
            hint="pass a .json or .toml file (a path or an https:// URL), a host (https://HOST) or a registry "
            "(oci://HOST/PREFIX)",
        )


def _parse(url: str) -> ParsedUrl:
    """Parse a URL of any scheme as one of https."""
    try:
        return parse_url(f"https://{url.partition('#')[0].partition('://')[2]}")
    except InvalidUrlError as error:
        raise SourceError(error.message, code=error.code, hint=error.hint) from error


def _split(source: str) -> tuple[str, ...]:
    """Split a source or a prefix into parts. A prefix matches a source only by complete parts.

    The tag and digest of a registry reference are omitted. Links in paths are resolved.
    """
    if "://" not in source:
        return ("file", *Path(os.path.realpath(source)).parts)
    scheme, parsed = source.partition("://")[0].lower(), _parse(source)
    segments = [*parsed.segments]
    if scheme == "oci":
        path = parsed.path.partition("@")[0]
        above, slash, name = path.rpartition("/")
        segments = (above + slash + name.partition(":")[0]).split("/")[1:]
    while segments and not segments[-1]:
        segments.pop()
    return (scheme, parsed.host, str(parsed.port), *segments)
