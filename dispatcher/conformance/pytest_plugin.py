"""The conformance kit as a pytest plugin, for the tests of a driver.

It is there wherever Longshore is installed. A driver's tests give it a trial, for as long as they
like (a session, a module), and take one test for each check:

    from longshore.dispatcher.conformance.trial import make_trial

    @pytest.fixture(scope="module")
    def conformance_trial(tmp_path_factory):
        return make_trial(
            DRIVER, Parameters(), instance_type=TYPE, state_dir=tmp_path_factory.mktemp("state")
        )

    def test_the_driver_conforms(conformance_check):
        conformance_check()

What cannot be shown is skipped, with its reason; what was made is destroyed when the last check of
the module is over, and what cannot be fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from longshore.dispatcher.conformance.kit import Conformance, Trial

_CHECK = "conformance_check"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each check out of one that takes `conformance_check`."""
    if _CHECK in metafunc.fixturenames:
        from longshore.dispatcher.conformance.kit import CHECKS  # noqa: PLC0415 - no other tests need it

        metafunc.parametrize(_CHECK, [each.name for each in CHECKS], indirect=True)


@pytest.fixture(scope="module")
def conformance_run(conformance_trial: Trial) -> Iterator[Conformance]:
    """Yield the run of the kit that the checks of a module share; fails if anything is left."""
    from longshore.dispatcher.conformance.kit import Conformance  # noqa: PLC0415 - no other tests need it

    with Conformance(conformance_trial) as run:
        yield run
    if run.left:
        pytest.fail(f"the kit left behind: {'; '.join(run.left)}", pytrace=False)


@pytest.fixture
def conformance_check(
    request: pytest.FixtureRequest, conformance_run: Conformance
) -> Callable[[], None]:
    """Return what makes one check, and passes, fails or skips the test."""
    from longshore.dispatcher.conformance.kit import Outcome, check_named  # noqa: PLC0415 - no other tests need it

    def make() -> None:
        result = conformance_run.show(check_named(request.param))
        if result.outcome is Outcome.NOT_SHOWN:
            pytest.skip(result.why)
        if result.outcome is Outcome.FAILED:
            pytest.fail(f"{result.name}: {result.why}; {result.remedy}", pytrace=False)

    return make
