"""All planted defects of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.edges.defect import EdgeDefect
from tests.edges.defects_access import ACCESS
from tests.edges.defects_api import API
from tests.edges.defects_billing import BILLING
from tests.edges.defects_browser_login import BROWSER_LOGIN
from tests.edges.defects_budget_stops import BUDGET_STOPS
from tests.edges.defects_budgets import BUDGETS
from tests.edges.defects_client import CLIENT
from tests.edges.defects_cost_doors import COST_DOORS
from tests.edges.defects_cost_doubts import COST_DOUBTS
from tests.edges.defects_cost_files import COST_FILES
from tests.edges.defects_cost_views import COST_VIEWS
from tests.edges.defects_dashboard import DASHBOARD
from tests.edges.defects_estimates import ESTIMATES
from tests.edges.defects_inside import INSIDE
from tests.edges.defects_logs import LOGS
from tests.edges.defects_metrics import METRICS
from tests.edges.defects_overview import OVERVIEW
from tests.edges.defects_prepaid import PREPAID
from tests.edges.defects_prices import PRICES
from tests.edges.defects_remote import REMOTE
from tests.edges.defects_runner import RUNNER
from tests.edges.defects_secrets import SECRETS
from tests.edges.defects_single_sign_on import SINGLE_SIGN_ON
from tests.edges.defects_spend import SPEND
from tests.edges.defects_store import STORE
from tests.edges.defects_traces import TRACES
from tests.edges.defects_usage import USAGE

DEFECTS: Final = (
    *(
        *ACCESS,
        *API,
        *BILLING,
        *BUDGET_STOPS,
        *BUDGETS,
        *CLIENT,
        *COST_DOORS,
        *COST_DOUBTS,
        *COST_FILES,
        *ESTIMATES,
        *INSIDE,
        *OVERVIEW,
        *LOGS,
        *METRICS,
        *PREPAID,
        *PRICES,
        *REMOTE,
        *RUNNER,
        *SECRETS,
        *SINGLE_SIGN_ON,
        *SPEND,
        *STORE,
        *TRACES,
        *USAGE,
        *BROWSER_LOGIN,
        *COST_VIEWS,
        *DASHBOARD,
    ),
)


def part_of(defects: Sequence[EdgeDefect], part: int, parts: int) -> list[EdgeDefect]:
    """Return one of `parts` equal parts, the first of which is 1."""
    return list(defects)[part - 1 :: parts]
