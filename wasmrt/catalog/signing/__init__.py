"""Signatures of components and packages, as Sigstore bundles (version 0.3).

A signature names the digests of the component and of its capability file, so that neither can be replaced.
`keys` is imported on use, since it loads cryptography.
"""

from __future__ import annotations

from wasmrt.catalog.signing._signer import Signer
from wasmrt.catalog.signing._verify import Verified, verify

__all__ = ["Signer", "Verified", "verify"]
