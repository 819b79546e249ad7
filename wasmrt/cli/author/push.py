"""`wasmrt push`: publish a component with its capability file, or a package, in a registry."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.catalog.package import fetch_archive
from wasmrt.catalog.registry import Sign, push_component, push_package
from wasmrt.catalog.signing import check_covers
from wasmrt.catalog.sources import FileSource, read_signature, read_source
from wasmrt.catalog.validator import WasmValidator
from wasmrt.cli.author.sign import sign_with
from wasmrt.cli.shared.options import json_option, quiet_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.registries import registry_access
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import ARCHIVE_SUFFIXES, COMPONENT_MAX_BYTES, MAX_ARCHIVE_BYTES


@click.command("push")
@click.argument("url", metavar="oci://HOST/NAME:TAG")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Its capability file (default: NAME.capabilities.json next to the component).",
)
@click.option("--sign", "key", type=click.Path(path_type=Path), metavar="FILE", help="Sign it with this private key.")
@click.option(
    "--signature",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Attach this signature of the published digest.",
)
@quiet_option
@json_option
def push(
    url: str,
    file: Path,
    capabilities: Path | None,
    key: Path | None,
    signature: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Publish the component or package in FILE in a registry.

    One digest covers a component and its capability file, and the same files always have the same digest. A package is
    an archive of `wasmrt pack`. The login comes from Docker's config.json.

    A signature covers the digest of the manifest, and is stored in the registry as its referrer, where wasmrt install
    and cosign find it.

    \b
    Examples:
      wasmrt push oci://registry.example.com/acme/json:1.2.0 json.wasm \\
        --sign publisher.key
      wasmrt push oci://registry.example.com/acme/github:1.0.0 github.zip
    """
    if key is not None and signature is not None:
        raise click.UsageError("pass either --sign or --signature")
    sign = _choose_signing(key, signature)
    if file.name.endswith(ARCHIVE_SUFFIXES):
        if capabilities is not None:
            raise ConfigurationError(
                "a package contains its capability file, so a separate one cannot be used", hint="omit --capabilities"
            )
        archive = read_source(file, "package", max_bytes=MAX_ARCHIVE_BYTES)
        fetch_archive(archive, f"file {file.name}", max_bytes=COMPONENT_MAX_BYTES)
        resolved = push_package(url, registry_access(), archive, sign=sign)
    else:
        fetched = FileSource(file, capabilities).fetch(max_bytes=COMPONENT_MAX_BYTES)
        for warning in fetched.warnings:
            print_message(f"warning: {warning}")
        found = WasmValidator().validate(fetched.data)
        found.raise_first()
        names = {"imports": found.imports, "exports": found.exports}
        resolved = push_component(url, registry_access(), fetched, **names, sign=sign)
    if as_json:
        show_json({"resolved": resolved})
        return
    print_message(f"published {resolved}")
    print_message(f"next: wasmrt install {resolved}")


def _choose_signing(key: Path | None, signature: Path | None) -> Sign | None:
    if key is not None:
        return lambda digest: sign_with(key, {"manifest": digest})[0]
    if signature is not None:
        bundle = read_signature(signature)
        return lambda digest: check_covers(bundle, digest)
    return None
