"""Bills for tests: rows of CUR 2.0 and FOCUS, and files of them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

CUR_ROW = {
    "line_item_usage_start_date": "2026-10-01T00:00:00Z",
    "line_item_usage_end_date": "2026-10-01T01:00:00Z",
    "line_item_line_item_type": "Usage",
    "line_item_resource_id": "i-0a1",
    "line_item_product_code": "AmazonEC2",
    "line_item_usage_type": "EUC1-BoxUsage:m5.large",
    "line_item_usage_amount": "0.5",
    "line_item_unblended_cost": "0.0575",
    "line_item_currency_code": "USD",
    "pricing_public_on_demand_cost": "0.0575",
    "resource_tags": '{"user_longshore_cluster":"lab"}',
}

FOCUS_ROW = {
    "ChargePeriodStart": "2026-10-01T00:00:00Z",
    "ChargePeriodEnd": "2026-10-01T01:00:00Z",
    "ChargeCategory": "Usage",
    "ServiceCategory": "Compute",
    "ServiceSubcategory": "Virtual Machines",
    "ResourceId": "i-0a1",
    "BilledCost": "0.05",
    "EffectiveCost": "0.0475",
    "ListCost": "0.0575",
    "BillingCurrency": "USD",
    "PricingQuantity": "0.5",
    "PricingUnit": "Hours",
    "Tags": '{"longshore-cluster":"lab"}',
}


def written(path: Path, rows: Sequence[dict[str, str]]) -> Path:
    """Write rows as CSV, with the columns of the first, and return the file."""
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
