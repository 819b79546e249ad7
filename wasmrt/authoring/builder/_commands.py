"""Run the compiler and the tests of a project that is not a component, confined to the project."""

from __future__ import annotations

import shutil
from pathlib import Path

from wasmrt.authoring.builder._templates import TemplateEngine
from wasmrt.authoring.builder._values import Language
from wasmrt.authoring.project import (
    CommandResult,
    Project,
    Toolchain,
    missing_layers,
    open_sandbox,
    run_command,
    toolchains_dir,
    use_build_folders,
)
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.core.lifetime import Lifetime

_ENV = {"GOENV": "off", "GOTOOLCHAIN": "local", "GOPROXY": "off", "PYTHONDONTWRITEBYTECODE": "1"}


def run_in_project(folder: Path, language: Language, words: tuple[str, ...], lifetime: Lifetime) -> CommandResult:
    """Run a command without network. It may write only the project and a folder that is deleted afterwards.

    A binary that cargo built for release is copied into the project's folder `build`.

    Raises:
        MissingToolchainError: the command is missing.
        BuildError: this machine cannot confine commands, or the command cannot be run.
        DeadlineExceededError, CancelledError: the call that `lifetime` belongs to has ended.
    """
    # Bash needs only the system.
    template = TemplateEngine().template(Language.PYTHON if language is Language.BASH else language)
    cache = toolchains_dir() / "cache" / template.language
    cache.mkdir(parents=True, exist_ok=True)
    toolchain = Toolchain((), cache, None)
    program = toolchain.find(words[0])
    if program is None:
        raise MissingToolchainError(f"the command {words[0]} is missing", hint=f"install it for {language}")
    project = Project(folder, folder.name, template.language)
    require_confinement()
    with use_build_folders(), open_sandbox(template, project, toolchain) as sandbox:
        temporary = sandbox.temporary
        env = _ENV | {"CARGO_TARGET_DIR": str(temporary / "target"), "GOCACHE": str(temporary / "go")}
        command = sandbox.command([program, *words[1:]], env, fetching=False)
        result = run_command(command.argv, cwd=folder, env=command.env, shown=words[0], lifetime=lifetime)
        binary = temporary / "target" / "release" / folder.name
        if result.code == 0 and binary.is_file() and not binary.is_symlink():
            (folder / "build").mkdir(exist_ok=True)
            shutil.copy(binary, folder / "build" / folder.name)
    return result


def require_confinement() -> None:
    """Refuse to run a model's code without confinement.

    Raises:
        BuildError: isolation layers are missing.
    """
    # SECURITY: `wasmrt build` also builds without confinement, because its user wrote or chose the project.
    if missing := missing_layers():
        raise BuildError(
            f"this machine cannot confine builds (missing: {', '.join(missing)})", code="not-confined",
            hint="wasmrt doctor lists the layers",
        )  # fmt: skip
