"""Create the files with which a build starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from wasmrt.authoring.builder._values import BuildRequirement, Language, SoftwareType
from wasmrt.authoring.project import Packages, Project, Step, Template, create_project, load_template
from wasmrt.core.errors import ConfigurationError

_COMPONENT_TEMPLATES = {Language.JAVASCRIPT: "js-quickjs", Language.TYPESCRIPT: "js-quickjs"}
"""The templates of `wasmrt new` whose names differ from the names of their languages."""
_ESBUILD = Packages("npm", ("esbuild@0.28.2",), ("esbuild",), "10 MB")
_TYPESCRIPT = Step(
    "compiling tool.ts", ("esbuild", "tool.ts", "--format=esm", "--outfile=tool.js", "--log-level=warning")
)
_RUST_MAIN = 'fn main() {\n    println!("hello");\n}\n'
_RUST_LIBRARY = (
    'pub fn greet() -> &\'static str {\n    "hello"\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n'
    '    fn greets() {\n        assert_eq!(super::greet(), "hello");\n    }\n}\n'
)
_PYTHON_TEST = (
    "import unittest\n\nfrom main import main\n\n\nclass MainTest(unittest.TestCase):\n"
    '    def test_main(self):\n        self.assertEqual(main(), "hello")\n'
)
_PYTHON = 'def main():\n    return "hello"\n\n\nif __name__ == "__main__":\n    print(main())\n'
_JS_TEST = (
    'import assert from "node:assert";\nimport test from "node:test";\nimport { main } from "./main.js";\n\n'
    'test("main", () => assert.equal(main(), "hello"));\n'
)
_GO = """package main

import "fmt"

func greet() string { return "hello" }

func main() { fmt.Println(greet()) }
"""
_GO_TEST = """package main

import "testing"

func TestGreet(t *testing.T) {
	if greet() != "hello" {
		t.Fail()
	}
}
"""


class TemplateEngine:
    """Creates projects from templates: those of `wasmrt new` for components, and small programs for the other types."""

    def create(self, requirement: BuildRequirement, parent: Path) -> Project:
        """Create the project of a requirement in a new folder of `parent`.

        Raises:
            ConfigurationError: the folder cannot be written, or the language cannot be compiled to a component.
        """
        name, language = requirement.name, requirement.language
        if requirement.software_type is SoftwareType.WASM_TOOL:
            template = self.template(language)
            project = create_project(name, template.language, parent, world=template.worlds[0], minimal=True)
            if language is Language.TYPESCRIPT:
                (project.folder / template.edit).rename(project.folder / self.edit(language))
            return project
        folder = parent / name
        try:
            for path, text in _list_files(requirement).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"the project cannot be written ({error.strerror})") from error
        return Project(folder, name, str(language))

    def template(self, language: Language) -> Template:
        """Return the template of components in a language.

        Raises:
            ConfigurationError: the language cannot be compiled to a component.
        """
        template = load_template(_COMPONENT_TEMPLATES.get(language, str(language)))
        if language is not Language.TYPESCRIPT:
            return template
        return replace(
            template, packages=(*template.packages, _ESBUILD), steps=(_TYPESCRIPT, *template.steps),
            sources=(*template.sources, "*.ts"),
        )  # fmt: skip

    def edit(self, language: Language) -> str:
        """Return the source file of a component that an author edits."""
        return "tool.ts" if language is Language.TYPESCRIPT else self.template(language).edit


def _list_files(requirement: BuildRequirement) -> Mapping[str, str]:
    name = requirement.name
    files = {"README.md": f"# {name}\n\n{requirement.description}\n"}
    match requirement.language:
        case Language.RUST:
            library = requirement.software_type is SoftwareType.LIBRARY
            files["Cargo.toml"] = f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'
            files["src/lib.rs" if library else "src/main.rs"] = _RUST_LIBRARY if library else _RUST_MAIN
        case Language.PYTHON:
            files |= {"main.py": _PYTHON, "test_main.py": _PYTHON_TEST}
        case Language.JAVASCRIPT | Language.TYPESCRIPT:
            typed = requirement.language is Language.TYPESCRIPT
            scripts = {"build": "tsc" if typed else "node --check main.js", "test": "node --test"}
            package = {"name": name, "version": "0.1.0", "type": "module", "scripts": scripts}
            files |= {
                "package.json": json.dumps(package, indent=2) + "\n",
                f"main.{requirement.language.extension}": 'export const main = () => "hello";\n',
                "main.test.js": _JS_TEST,
            }
        case Language.GO:
            files |= {"go.mod": f"module {name}\n\ngo 1.21\n", "main.go": _GO, "main_test.go": _GO_TEST}
        case Language.BASH:
            files |= {
                "main.sh": "#!/usr/bin/env bash\nset -euo pipefail\necho hello\n",
                "test.sh": '#!/usr/bin/env bash\nset -euo pipefail\n[ "$(bash main.sh)" = hello ]\n',
            }
    return files
