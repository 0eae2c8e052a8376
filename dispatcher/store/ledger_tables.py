"""The tables of the ledger, as SQLAlchemy Core sees them; the migrations make them.

Facts are in two: an interval is inserted when it begins and gets its end once; a bill is one row an
instance. `ledger_hours` is reckoned from them and can be thrown away. An amount is in grains, which
a sum of a year takes out of 64 bits: it is kept in two columns, of whole and of rest, that are
added up apart. `ledger_marks` are the hours in which a fact has changed that may be booked already.
`ledger_corrections` are what bills say beside the lines, and are only ever added to.
`ledger_listing` has one row: when the latest complete listing began.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    literal_column,
    or_,
)

from longshore.dispatcher.store.tables import metadata

LONG_MS = 86_400_000
"""An interval longer than this, or still open, is found by an index of its own."""

intervals = Table(
    "ledger_intervals",
    metadata,
    Column("instance_id", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("from_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger),
    Column("state", Text, nullable=False),
    Column("share", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("job_name", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("array_index", Integer),
    Column("container_id", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    PrimaryKeyConstraint("instance_id", "holder", "from_ms"),
)
IS_LONG = or_(intervals.c.until_ms.is_(None), intervals.c.until_ms - intervals.c.from_ms > LONG_MS)
Index("ledger_intervals_by_from", intervals.c.from_ms)
Index("ledger_intervals_long", intervals.c.until_ms, sqlite_where=IS_LONG, postgresql_where=IS_LONG)
Index("ledger_intervals_by_container", intervals.c.container_id)
# As text, since an index is used only for a query that says the very same.
IS_ENDED_RUN = and_(
    intervals.c.until_ms.is_not(None), intervals.c.job_name != literal_column("''", Text)
)
Index(
    "ledger_intervals_by_work",
    intervals.c.user,
    intervals.c.job_name,
    intervals.c.task,
    intervals.c.until_ms,
    sqlite_where=IS_ENDED_RUN,
    postgresql_where=IS_ENDED_RUN,
)
# What was of use once it ended is an attempt that succeeded: an instance has no such interval.
SUCCEEDED = intervals.c.outcome == literal_column("'useful'", Text)
Index(
    "ledger_intervals_succeeded",
    intervals.c.until_ms,
    intervals.c.project,
    intervals.c.user,
    intervals.c.job_name,
    sqlite_where=SUCCEEDED,
    postgresql_where=SUCCEEDED,
)

bills = Table(
    "ledger_bills",
    metadata,
    Column("instance_id", Text, primary_key=True),
    Column("type_name", Text, nullable=False),
    Column("provider_type", Text, nullable=False),
    Column("preemptible", Boolean, nullable=False),
    Column("nusd_per_hour", BigInteger, nullable=False),
    Column("payer_project", Text, nullable=False),
    Column("payer_user", Text, nullable=False),
    Column("payer_job_name", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("rule", Text, nullable=False),
    Column("billed", Text, nullable=False),
    Column("running_ms", BigInteger),
    Column("ready_ms", BigInteger),
    Column("used_ms", BigInteger),
    Column("unwanted_ms", BigInteger),
    Column("seen_ms", BigInteger),
    Column("gone_ms", BigInteger),
    Column("final", Boolean, nullable=False),
)
Index("ledger_bills_by_gone", bills.c.final, bills.c.gone_ms)

listing = Table(
    "ledger_listing",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
)

prices = Table(
    "ledger_prices",
    metadata,
    Column("type_name", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("valid_from_ms", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("nusd_per_hour", BigInteger, nullable=False),
    PrimaryKeyConstraint("type_name", "zone", "valid_from_ms", "source"),
)

prepaid = Table(
    "ledger_prepaid",
    metadata,
    Column("type_name", Text, nullable=False),
    Column("provider_type", Text, nullable=False),
    Column("valid_from_ms", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    PrimaryKeyConstraint("type_name", "valid_from_ms"),
)

groups = Table(
    "ledger_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("job_name", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("type_name", Text, nullable=False),
    Column("preemptible", Boolean, nullable=False),
    Column("zone", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("column", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("price_source", Text, nullable=False),
    UniqueConstraint(
        "project",
        "user",
        "job_name",
        "labels",
        "type_name",
        "preemptible",
        "zone",
        "state",
        "column",
        "cause",
        "outcome",
        "price_source",
        name="ledger_groups_whole",
    ),
)


def _sums(name: str, period: str) -> Table:
    """Return a table of sums by period and group."""
    return Table(
        name,
        metadata,
        Column(period, Integer, nullable=False),
        Column("group_id", Integer, nullable=False),
        Column("quantity_ms", BigInteger, nullable=False),
        Column("whole", BigInteger, nullable=False),
        Column("rest", BigInteger, nullable=False),
        Column("uncertain_whole", BigInteger, nullable=False),
        Column("uncertain_rest", BigInteger, nullable=False),
        PrimaryKeyConstraint(period, "group_id"),
        sqlite_with_rowid=False,
    )


hours = _sums("ledger_hours", "hour")
days = _sums("ledger_days", "day")

booked = Table(
    "ledger_booked",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("until_hour", Integer, nullable=False),
)

marks = Table(
    "ledger_marks",
    metadata,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("times", Integer, nullable=False),
)

corrections = Table(
    "ledger_corrections",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("booked_hour", Integer, nullable=False),
    Column("about_hour", Integer, nullable=False),
    Column("counted_hour", Integer, nullable=False),
    Column("instance_id", Text, nullable=False),
    Column("group_id", Integer, nullable=False),
    Column("quantity_ms", BigInteger, nullable=False),
    Column("whole", BigInteger, nullable=False),
    Column("rest", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_at", Float, nullable=False),
    Column("file_name", Text, nullable=False),
    Column("sha256", Text, nullable=False),
)
Index("ledger_corrections_by_about", corrections.c.about_hour)
Index("ledger_corrections_by_counted", corrections.c.counted_hour)

months = Table(
    "ledger_months",
    metadata,
    Column("until_hour", Integer, primary_key=True, autoincrement=False),
    Column("month", Text, nullable=False),
    Column("closed_at", Float, nullable=False),
    Column("quantity_ms", BigInteger, nullable=False),
    Column("whole", BigInteger, nullable=False),
    Column("rest", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
)
