"""Verify the signatures of fetched content, and sign content."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
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


def verify(fetched: Fetched, known: Iterable[Signer], required: Sequence[Signer] = ()) -> Verified:
    """Return the signer of fetched content. `known` are signers whose keys can verify it.

    A signature by an unknown key, or of the component but not of its capability file, does not count.

    Raises:
        SourceError: every signature is invalid, or `required` is not empty and none of these signers signed it.
    """
    keys = {signer.hint: signer for signer in (*known, *required)}
    results, invalid = [], []
    for data in fetched.bundles[:MAX_BUNDLES]:
        try:
            results.append(_verify_bundle(data, keys, fetched.signed))
        except BundleError as error:
            invalid.append(f"the signature is not valid: {error}")
    found = [each for each in results if each.signer is not None and (not required or each.signer in required)]
    if found:
        return found[0]
    problems = [*invalid, *(each.problem for each in results if each.problem)]
    # SECURITY: an invalid signature is refused, so that replacing it does not have less effect than removing it.
    if invalid or required:
        reason = problems[0] if problems else "the tool is not signed"
        needed = f"; it must be signed by {' or '.join(map(str, required))}" if required else ""
        hint = "ask the publisher for a new signature"
        raise SourceError(f"{reason}{needed}", code="signature", hint=hint)
    return Verified(problem=problems[0] if problems else "")


def _verify_bundle(data: bytes, keys: Mapping[str, Signer], signed: tuple[str, ...]) -> Verified:
    """Verify one bundle of content with the digests `signed`, of which the first is the component or archive.

    Raises:
        BundleError: the bundle is malformed, was not signed with its key, or is a signature for different content.
    """
    bundle = read_bundle(data)
    signer = None if bundle.hint is None else keys.get(bundle.hint)
    if signer is None:
        return Verified(problem=f"signed with an unknown {_describe_key(bundle.hint)}")
    from wasmrt.catalog.signing.keys import is_signed  # loads cryptography

    if not is_signed(signer.key_bytes, bundle.signature, bundle.signed):
        raise BundleError(f"it was not made with {signer}")
    # SECURITY: a signature of some other statement of the same signer must not cover this content.
    if bundle.covers == {*signed}:
        return Verified(signer, data.decode())
    if bundle.covers == {*signed[:1]}:
        return Verified(problem=f"the signature by {signer} does not cover the capability file")
    raise BundleError("the signature is for different content")


def _describe_key(hint: str | None) -> str:
    if hint is None:
        return "identity"
    try:
        return f"key sha256:{base64.b64decode(hint, validate=True).hex()[:16]}"
    except (binascii.Error, ValueError):
        return "key"
