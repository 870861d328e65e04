"""What every test relies on: the compiled kernels are really the ones under test, and Hypothesis is calm.

`ROQUET_PURE=1` runs the suite on the plain twins alone; without it a missing extension is an error
here, so that a green run never means that only one twin was tested.
"""

from __future__ import annotations

import importlib
import os

import pytest
from hypothesis import HealthCheck, settings

KERNELS = (
    "roquet.wire._frame_c",
    "roquet.wire._reply_c",
    "roquet.store.format._columns_c",
    "roquet.store.format._entries_c",
    "roquet.store.format._page_c",
    "roquet.store.format._record_c",
    "roquet.store.format._run_c",
    "roquet.broker.core._batch_c",
    "roquet.broker.core._lane_c",
    "roquet.broker.core._redraft_c",
    "roquet.broker.features.timer._parked_c",
    "roquet.model._properties_c",
)
PURE = os.environ.get("ROQUET_PURE") == "1"

# The machine may be busy with real servers beside the tests, so no example is judged by its duration.
settings.register_profile(
    "roquet", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("roquet")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run on the wrong twin."""
    if PURE:
        return
    for name in KERNELS:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise pytest.UsageError(
                f"{name} is not built ({error}); run `pip install -e . --no-build-isolation`, "
                "or set ROQUET_PURE=1 to test the plain twins alone"
            ) from None


def pytest_report_header(config: pytest.Config) -> str:
    return "roquet kernels: " + ("plain Python (ROQUET_PURE=1)" if PURE else ", ".join(KERNELS))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where everything must run (CI), a test that was skipped is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("TESTS_MUST_BE_COMPLETE") != "1":
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and exitstatus == 0:
        reporter.write_line(f"{len(skipped)} tests were skipped, and all must run here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
