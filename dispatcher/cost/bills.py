"""What a cloud's bill says, whatever form it came in; pure.

Amounts and quantities are the decimals that the file has, and nothing of them is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum


class ChargeKind(Enum):
    """What a row of a bill is for."""

    INSTANCE = "instance"
    """The time of an instance: what the ledger counts, too."""
    DISCOUNT = "discount"
    """A discount that has a row of its own."""
    STORAGE = "storage"
    TRANSFER = "transfer"
    """Data that went through a network, and public addresses."""
    TAX = "tax"
    SUPPORT = "support"
    CREDIT = "credit"
    COMMITMENT = "commitment"
    """What was bought beforehand, and what of that nobody used."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One row of a bill."""

    #: As the cloud writes it in bills, "" for what is about no resource.
    resource_id: str
    #: Whole hours since the epoch, UTC; the row is about [first_hour, end_hour), at least one hour.
    first_hour: int
    end_hour: int
    kind: ChargeKind
    #: Seconds of an instance; None where the row is about no time, or counts something else.
    usage_s: Decimal | None
    #: What it would cost by the public price, None where the row does not say.
    list_cost: Decimal | None
    #: What is to be paid for it with this bill.
    billed_cost: Decimal
    #: What it costs with its part of what was paid beforehand.
    effective_cost: Decimal
    #: As ISO 4217 writes it.
    currency: str
    #: What the row calls it, for people.
    description: str = ""
    #: The value of the tag that names the cluster, "" where there is none.
    cluster: str = ""
