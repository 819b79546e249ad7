"""Run the tests of a component's project."""

from __future__ import annotations

from typing import Any, NamedTuple

from wasmrt.authoring.project import Project, TestResult, read_cases, read_component, read_sidecar, run_cases
from wasmrt.core.lifetime import Lifetime


class SuiteResult(NamedTuple):
    """The results of all test cases of a project."""

    results: tuple[TestResult, ...]

    @property
    def tests_passed(self) -> int:
        """The number of test cases that passed."""
        return sum(result.passed for result in self.results)

    @property
    def tests_failed(self) -> int:
        """The number of test cases that failed."""
        return len(self.results) - self.tests_passed

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, and the results of the failed test cases."""
        failed = [result.as_dict() for result in self.results if not result.passed]
        return {"tests_passed": self.tests_passed, "tests_failed": self.tests_failed, "failed": failed}


class TestHarness:
    """Runs the test cases in a project's folder `tests` against its component, each in a fresh sandbox."""

    __test__ = False  # keep pytest from collecting this class

    def run(self, project: Project, *, lifetime: Lifetime | None = None) -> SuiteResult:
        """Run all test cases.

        Raises:
            ConfigurationError: there is no test case, or a test case is invalid.
            BuildError: the project has not been built.
            DeadlineExceededError, CancelledError: the call that `lifetime` belongs to has ended.
        """
        cases, results = read_cases(project), []
        for result in run_cases(project.name, read_component(project), read_sidecar(project), cases):
            results.append(result)
            if lifetime is not None:
                lifetime.check()
        return SuiteResult(tuple(results))
