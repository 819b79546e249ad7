"""Verify the signatures of fetched content, and sign content."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.catalog.signing._bundle import BundleError, read_bundle
from wasmrt.catalog.signing._signer import Signer
from wasmrt.core.errors import SourceError
from wasmrt.core.limits import MAX_BUNDLES

if TYPE_CHECKING:
    from wasmrt.catalog.sources import Fetched


class Verified(NamedTuple):
    """The result of verifying the signatures of some content."""

    signer: Signer | None = None
    """The signer, or None if the content counts as unsigned."""
    bundle: str | None = None
    """The bundle with the signature of the signer."""
    problem: str = ""
    """The reason why content with a signature counts as unsigned, else empty."""
    root: str = ""
    """The trusted root that verified a keyless signature, with its age, as text for users."""


def verify(
    fetched: Fetched, known: Sequence[Signer], required: Sequence[Signer] = (), trusted_root: Path | None = None
) -> Verified:
    """Return the signer of fetched content. `known` are signers whose keys can verify it.

    A signature by an unknown key, or of the component but not of its capability file, does not count. Keyless
    signatures are verified with the file `trusted_root`, or by default with the root in the package `sigstore`.

    Raises:
        SourceError: every signature is invalid, `required` is not empty and none of these signers signed it, or the
            trusted root is invalid.
    """
    keys = {signer.hint: signer for signer in (*known, *required) if signer.key}
    results, invalid = [], []
    for data in fetched.bundles[:MAX_BUNDLES]:
        try:
            results.append(_verify_bundle(data, keys, fetched.signed, trusted_root))
        except BundleError as error:
            invalid.append(f"the signature is not valid: {error}")
    signers = [(each.signer, each) for each in results if each.signer is not None]
    found = [pair for pair in signers if not required or any(pair[0].satisfies(each) for each in required)]
    if found:
        # SECURITY: an additional signature of some other identity must not replace the pinned one.
        return min(found, key=lambda pair: pair[0] not in known)[1]
    others = [f"signed by {signer}" for signer, _ in signers]
    problems = [*invalid, *others, *(each.problem for each in results if each.problem)]
    # SECURITY: an invalid signature is refused, so that replacing it does not have less effect than removing it.
    if invalid or required:
        reason = problems[0] if problems else "the tool is not signed"
        needed = f"; it must be signed by {' or '.join(map(str, required))}" if required else ""
        hint = "ask the publisher for a new signature"
        raise SourceError(f"{reason}{needed}", code="signature", hint=hint)
    return Verified(problem=problems[0] if problems else "")


def check_covers(bundle: bytes, digest: str) -> bytes:
    """Check that a bundle names exactly this SHA-256 digest, and return it. Its signature is not verified.

    Raises:
        SourceError: the bundle is malformed, or is the signature of other content.
    """
    try:
        if read_bundle(bundle).covers != {digest}:
            raise BundleError(f"expected the signature of sha256:{digest}")
    except BundleError as error:
        message = f"the signature is not valid: {error}"
        raise SourceError(message, code="signature", hint="sign the digest of the published manifest") from None
    return bundle


def _verify_bundle(data: bytes, keys: Mapping[str, Signer], signed: tuple[str, ...], root: Path | None) -> Verified:
    """Verify one bundle of content with the digests `signed`, of which the first is the component or archive.

    Raises:
        BundleError: the bundle is malformed, a part of it is invalid, or it is a signature for different content.
        SourceError: the trusted root is invalid.
    """
    bundle, used = read_bundle(data), ""
    if bundle.hint is None:
        try:
            from wasmrt.catalog.signing.keyless import find_root, verify_keyless  # an extra
        except ImportError:
            return Verified(problem="signed by an identity; to verify it: pip install 'wasmrt[sigstore]'")
        found = find_root(root)
        (signer, covers), used = verify_keyless(data, signed, found), str(found)
    else:
        known, covers = keys.get(bundle.hint), bundle.covers
        if known is None:
            return Verified(problem=f"signed with an unknown {_describe_key(bundle.hint)}")
        from wasmrt.catalog.signing.keys import is_signed  # loads cryptography

        if not is_signed(known.key_bytes, bundle.signature, bundle.signed):
            raise BundleError(f"the signature was not made with {known}")
        signer = known
    # SECURITY: a signature of some other statement of the same signer must not cover this content.
    if covers == {*signed}:
        return Verified(signer, data.decode(), root=used)
    if covers == {*signed[:1]}:
        return Verified(problem=f"the signature by {signer} does not cover the capability file")
    raise BundleError("the signature is for different content")


def _describe_key(hint: str) -> str:
    try:
        return f"key sha256:{base64.b64decode(hint, validate=True).hex()[:16]}"
    except (binascii.Error, ValueError):
        return "key"
