"""`wasmrt sign`: sign a component or an archive, and create pairs of keys."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.catalog.package import PackageSource
from wasmrt.catalog.signing import Signer
from wasmrt.catalog.signing.keys import make_key_pair, read_key
from wasmrt.catalog.signing.keys import sign as make_signature
from wasmrt.catalog.sources import BUNDLE_SUFFIX, FileSource, is_package
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import is_interactive, print_message, show_json
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.files import create_file, replace_file
from wasmrt.core.limits import COMPONENT_MAX_BYTES


@click.command("sign")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="Private key, ECDSA P-256 as PEM.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Capability file of a component (default: NAME.capabilities.json next to it).",
)
@click.option("--new-key", type=click.Path(path_type=Path), metavar="NAME", help="Create NAME.key and NAME.pub.")
@json_option
def sign(file: Path | None, key: Path | None, capabilities: Path | None, new_key: Path | None, as_json: bool) -> None:
    """Sign a component with its capability file, or an archive.

    The signature is written to FILE.sigstore.json, as a Sigstore bundle, and covers the component and its capability
    file. Publish it next to FILE, and your public key elsewhere. To sign a tool in a registry, use wasmrt push --sign.

    --new-key creates a pair of keys. The private key NAME.key is not encrypted; to encrypt it, use openssl pkcs8.

    \b
    Examples:
      wasmrt sign --new-key publisher
      wasmrt sign search.wasm --key publisher.key
      wasmrt sign weather-1.0.0.zip --key publisher.key
    """
    if (file is None) == (new_key is None) or (file is None) != (key is None):
        raise click.UsageError("pass either FILE with --key, or --new-key")
    if new_key is not None:
        _create_keys(new_key, as_json=as_json)
    elif file is not None and key is not None:
        _sign(file, key, capabilities, as_json=as_json)


def _create_keys(name: Path, *, as_json: bool) -> None:
    private, public = (name.with_name(f"{name.name}.{suffix}") for suffix in ("key", "pub"))
    texts = make_key_pair()
    try:
        created = not public.exists() and create_file(private, texts[0])
        if created:
            replace_file(public, texts[1], mode=0o644)
    except OSError as error:
        raise SourceError(f"cannot write the keys ({error.strerror})", hint="choose another NAME") from error
    if not created:
        raise ConfigurationError(f"{private.name} or {public.name} already exists", hint="choose another NAME")
    if as_json:
        show_json({"private_key": private.name, "public_key": public.name})
    else:
        print_message(f"created {private.name} (keep it secret) and {public.name}")


def _sign(file: Path, key: Path, capabilities: Path | None, *, as_json: bool) -> None:
    if is_package(file):
        if capabilities is not None:
            raise ConfigurationError(
                "a package contains its capability file, so a separate one cannot be used", hint="omit --capabilities"
            )
        fetched = PackageSource(file).fetch(max_bytes=COMPONENT_MAX_BYTES)
        if not fetched.signed:
            raise SourceError("a folder cannot be signed", hint="create an archive: wasmrt pack")
    else:
        fetched = FileSource(file, capabilities).fetch(max_bytes=COMPONENT_MAX_BYTES)
    names = (file.name, f"{fetched.name}.capabilities.json")
    bundle, signer = sign_with(key, dict(zip(names, fetched.signed, strict=False)))
    target = file.with_name(file.name + BUNDLE_SUFFIX)
    try:
        replace_file(target, bundle, mode=0o644)
    except OSError as error:
        raise SourceError(f"{target.name!r} cannot be written ({error.strerror})", hint="check the folder") from error
    if as_json:
        show_json({"signature": target.name, "signer": signer.as_dict(), "digests": list(fetched.signed)})
    else:
        covered = "" if len(fetched.signed) == 1 else " with its capability file"
        print_message(f"signed {file.name}{covered}: {target.name}, {signer}")


def sign_with(key: Path, subjects: dict[str, str]) -> tuple[bytes, Signer]:
    """Sign content. `subjects` maps its names to SHA-256 digests. Ask for the password if the key is encrypted.

    Raises:
        SourceError: the key cannot be read, or is encrypted and there is no terminal.
    """
    pem = read_key(key)
    try:
        try:
            return make_signature(subjects, pem)
        except TypeError:  # the key is encrypted
            if not is_interactive():
                raise SourceError(
                    f"the private key {key.name!r} is encrypted, and its password can only be entered in a terminal",
                    code="key",
                    hint="run the command in a terminal, or pass a key without a password",
                ) from None
            password: str = click.prompt("Password of the key", hide_input=True, err=True)
            return make_signature(subjects, pem, password.encode())
    except ValueError:
        raise SourceError(
            f"expected an ECDSA P-256 private key as PEM in {key.name!r}, or its password is wrong",
            code="key", hint="create a pair of keys: wasmrt sign --new-key NAME",
        ) from None  # fmt: skip
