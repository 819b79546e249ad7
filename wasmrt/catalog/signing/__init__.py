"""Signatures of components and packages, as Sigstore bundles (version 0.3).

A signature names the digests of the component and of its capability file, so that neither can be replaced.
`keys` and `keyless` are imported on use, since they load cryptography and the extra `wasmrt[sigstore]`.
"""

from __future__ import annotations

from wasmrt.catalog.signing._bundle import BUNDLE_TYPE, PREDICATE
from wasmrt.catalog.signing._signer import Signer, without_tag
from wasmrt.catalog.signing._verify import Verified, check_covers, verify

__all__ = ["BUNDLE_TYPE", "PREDICATE", "Signer", "Verified", "check_covers", "verify", "without_tag"]
