"""The configuration as data: every option, its type, its bounds and its default."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import msgspec

from longshore.dispatcher.cost.budgets import Included, StopRule
from longshore.dispatcher.cost.focus import ExportFormat
from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.input.quantities import CpuMillis, Price, Size
from longshore.pool.model import PoolSettings, Seconds

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]
Text = Annotated[str, msgspec.Meta(max_length=4096)]
ClaimPath = Annotated[str, msgspec.Meta(max_length=200)]
Labels = Annotated[
    dict[
        Annotated[str, msgspec.Meta(min_length=1, max_length=63)],
        Annotated[str, msgspec.Meta(max_length=255)],
    ],
    msgspec.Meta(max_length=64),
]
Amounts = Annotated[
    dict[Annotated[str, msgspec.Meta(min_length=1, max_length=63)], Count],
    msgspec.Meta(max_length=64),
]


class EngineName(Enum):
    """What runs containers on an instance; `auto` takes the first that passes a trial."""

    AUTO = "auto"
    PROCESS = "process"
    PODMAN = "podman"
    DOCKER = "docker"


class DriverConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which driver makes instances; `parameters` are what that driver takes."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "loopback"
    parameters: dict[str, Any] = {}


class GpusConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The GPUs of an instance type: `memory` is that of each; a `model` of "" has no name."""

    count: Count
    memory: Size = Size(0)
    model: Annotated[str, msgspec.Meta(max_length=63)] = ""


class TypeDefaultsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a container gets on a type that does not name a resource; None is as elsewhere."""

    cpus: CpuMillis | None = None
    memory: Size | None = None
    disk: Size | None = None
    gpus: Count | None = None
    resources: Amounts = {}


class ReserveConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operating system of an instance keeps for itself."""

    cpus: CpuMillis = CpuMillis(0)
    memory: Size = Size(0)
    disk: Size = Size(0)
    gpus: Count = 0
    resources: Amounts = {}


class PriceComponentsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is billed with each instance of a type beside the instance, an hour."""

    root_disk: Price = Price(Decimal(0))
    scratch: Price = Price(Decimal(0))
    public_ipv4: Price = Price(Decimal(0))


class TypeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One instance type; `provider_type` is the cloud's name for it, "" when it is ours."""

    cpus: CpuMillis
    memory: Size
    price_per_hour: Price
    price_components: PriceComponentsConfig = PriceComponentsConfig()
    provider_type: Annotated[str, msgspec.Meta(max_length=255)] = ""
    disk: Size = Size(0)
    gpus: Count | GpusConfig = 0
    preemptible: bool = False
    prepaid: Count = 0
    reservation: Annotated[str, msgspec.Meta(max_length=255)] = ""
    labels: Labels = {}
    resources: Amounts = {}
    reserve: ReserveConfig = ReserveConfig()
    defaults: TypeDefaultsConfig = TypeDefaultsConfig()


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How containers are run."""

    name: EngineName = EngineName.AUTO
    #: "" for the engine's name.
    binary: Text = ""
    global_arguments: tuple[Text, ...] = ()
    arguments: tuple[Text, ...] = ()
    #: "" for the runner's user.
    run_as: Annotated[str, msgspec.Meta(max_length=64)] = ""
    #: Whether a container with an image gets an init of its engine's as process 1, if it has one.
    init: bool = True
    #: How long it may take to fetch an image, which is in no container's own time limit.
    pull_timeout_s: Annotated[int, msgspec.Meta(ge=1, le=30 * 86400)] = 1800


class SshConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How instances are reached; `private_key` is a path once the configuration is loaded."""

    user: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "root"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 22
    private_key: Text = ""
    connect_timeout_s: Seconds = 15.0
    command_timeout_s: Seconds = 30.0
    heartbeat_interval_s: Seconds = 5.0
    heartbeat_timeout_s: Seconds = 20.0
    max_handshakes: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 16


class SecretsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How secrets are kept; `key_file` is an absolute path once it is loaded.

    In a file, "" asks for its default, `secret_keys` in the data directory.
    """

    key_file: Text = ""


class DefaultsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a container gets of the resources that it does not name."""

    cpus: CpuMillis = CpuMillis(1000)
    memory: Size = Size(1024**3)
    disk: Size = Size(0)


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server takes in, holds and keeps at most."""

    request_bytes: Size = Size(16 * 1024**2)
    list_items: Limit = 10_000
    environment_bytes: Size = Size(1024**2)
    log_bytes_per_stream: Size = Size(1024**3)
    open_log_files: Limit = 512
    queued_containers: Limit = 2_000_000
    queued_bytes: Size = Size(4 * 1024**3)
    queued_classes: Limit = 2_000
    inbox_events: Limit = 100_000
    pending_writes: Limit = 20_000
    event_subscribers: Limit = 100


class AuthMode(Enum):
    """Whether callers must say who they are."""

    OPEN = "open"
    REQUIRED = "required"


class IssuerClaimsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which claims say what; dots lead into nested ones. "" for what no claim says."""

    user: ClaimPath = "sub"
    #: A value, or a list of values, of `roles`.
    role: ClaimPath = ""
    #: A name, or a list of names.
    projects: ClaimPath = ""


class IssuerLoginConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How browsers log in at the issuer; without `client_id` they show a token."""

    client_id: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    #: The file of what this server shows the issuer beside its name, "" where it has none; an
    #: absolute path once it is loaded.
    client_secret_file: Text = ""
    scopes: Annotated[tuple[Text, ...], msgspec.Meta(max_length=50)] = ("openid", "profile")
    #: Where the issuer sends browsers back to; "" is made from what the browser asks.
    redirect_url: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class IssuerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The OpenID Connect issuer whose JSON Web Tokens let somebody in; without `url` none does."""

    url: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    #: What its tokens for this server have as `aud`.
    audience: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    claims: IssuerClaimsConfig = IssuerClaimsConfig()
    #: The role that a value of the claim gives; who has several values has the greatest of them.
    roles: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=200)], Role], msgspec.Meta(max_length=1000)
    ] = {}
    #: The role of who has no value of `roles`; None lets nobody in without one.
    default_role: Role | None = None
    #: What a value of the claim begins with that names a project; it is no part of the name, and
    #: values without it name none.
    project_prefix: Annotated[str, msgspec.Meta(max_length=200)] = ""
    login: IssuerLoginConfig = IssuerLoginConfig()


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The proxy whose headers say who somebody is; without `addresses` none do."""

    #: Addresses and networks that it asks from.
    addresses: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    user_header: Text = "X-Forwarded-User"
    #: Names of projects, with commas between; "" where no header has them.
    projects_header: Text = ""
    #: The name of a role; "" where no header has it, and everybody is a user.
    role_header: Text = ""


class AuthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is let in, and how often each caller may ask."""

    #: None is open on a loopback address without a proxy (`tls`), and required else.
    mode: AuthMode | None = None
    #: What each caller that is not of this machine may ask on average, and at once.
    requests_per_s: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)] = 100.0
    burst: Limit = 500
    #: How many logs and events each may follow at a time.
    streams: Limit = 20
    issuer: IssuerConfig = IssuerConfig()
    proxy: ProxyConfig = ProxyConfig()


class RoleName(Enum):
    """The roles of callers, as a configuration names them."""

    USER = "user"
    LEAD = "lead"
    ADMIN = "admin"


class PolicyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What some callers may ask for; a rule that is not given is none."""

    #: () is all but admins.
    roles: Annotated[tuple[RoleName, ...], msgspec.Meta(max_length=3)] = ()
    #: Names, or patterns as "teach-*"; () is all.
    projects: Annotated[tuple[Text, ...], msgspec.Meta(max_length=1000)] = ()
    time_limit_default_s: Annotated[float, msgspec.Meta(ge=1)] | None = None
    time_limit_max_s: Annotated[float, msgspec.Meta(ge=1)] | None = None
    priority_max: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    price_max_per_hour: Price | None = None
    array_size_max: Limit | None = None
    cpus_max: CpuMillis | None = None
    gpus_max: Count | None = None
    label_prefixes: Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)] = ()
    image_prefixes: Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)] = ()
    preemptible_only: bool = False
    instance_types: Annotated[tuple[Text, ...], msgspec.Meta(max_length=1000)] = ()


class BudgetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one project, user or label may spend in a period; of these three one is given."""

    project: Text = ""
    user: Text = ""
    #: KEY=VALUE.
    label: Text = ""
    #: In US dollars.
    limit: Annotated[float, msgspec.Meta(gt=0, le=1_000_000_000)]
    period: PeriodKind = PeriodKind.MONTH
    tz: Text = "UTC"
    includes: Included = Included.DIRECT
    #: Per cent of the limit.
    warn: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=1, le=1000)], ...], msgspec.Meta(max_length=20)
    ] = (50, 80, 100)
    forecast: bool = True
    stop: StopRule = StopRule.NONE


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where notifications are sent; `secret_file` is an absolute path once it is loaded."""

    url: Annotated[str, msgspec.Meta(max_length=2000)]
    #: Has the key that they are signed with.
    secret_file: Text


class NotificationsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is told of budgets and of unusual days, beside who follows events."""

    #: Names or addresses to which anything may be sent.
    hosts: Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)] = ()
    #: By name.
    webhooks: Annotated[dict[str, WebhookConfig], msgspec.Meta(max_length=20)] = {}
    #: How much above the usual a project's day must be at least to be told, in US dollars; None
    #: tells of none.
    unusual_day_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000_000)] | None = 50.0


class TracesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where traces are sent; without `endpoint` none are."""

    #: The URL of a collector that takes OTLP over HTTP.
    endpoint: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    #: Has the headers that it asks for; an absolute path once it is loaded, "" for none.
    headers_file: Text = ""
    #: Of the traces that begin here, the part that is sent.
    sample_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    #: What is said of this server with each, beside its name, version, cluster and store.
    resource: Annotated[dict[Text, Text], msgspec.Meta(max_length=100)] = {}


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How connections are kept from being read; two paths, absolute once they are loaded."""

    certificate: Text = ""
    private_key: Text = ""
    #: Whether a proxy in front has TLS, so that connections to it are plain.
    terminated_elsewhere: bool = False


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the audit log is kept: what is older goes, and what is too many."""

    kept_s: Annotated[float, msgspec.Meta(ge=3600, le=10 * 366 * 86400)] = 366 * 86400.0
    entries: Annotated[int, msgspec.Meta(ge=1000, le=100_000_000)] = 1_000_000


class BillerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What FOCUS files say of who bills; "" for what the driver's or the cluster's name tells."""

    #: As "AWS", and "Amazon EC2".
    provider: Text = ""
    service: Text = ""
    account_id: Text = ""
    account_name: Text = ""
    #: The region of each zone; of one that is not here, the zone stands for it.
    regions: Annotated[dict[Text, Text], msgspec.Meta(max_length=1000)] = {}


class CostExportConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the ledger is written to as files, and when."""

    #: "" for nowhere; absolute once it is loaded.
    dir: Text = ""
    cron: Text = "@daily"
    format: ExportFormat = ExportFormat.FOCUS_1_4
    #: The zone of `cron`, and of the months of CSV; those of FOCUS are UTC.
    tz: Text = "UTC"


class MarketName(Enum):
    """What a price is for: instances that stay, or preemptible ones."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


class FactorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the prices of a type are multiplied by; "" and None are all types, and both markets."""

    type: Text = ""
    market: MarketName | None = None
    factor: Annotated[float, msgspec.Meta(gt=0, le=10)]


class PricesFrom(Enum):
    """Where prices come from: the configuration, or the driver, while the server runs."""

    CONFIGURED = "configured"
    LIVE = "live"


class CostConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How cost is told: the ledger has it in any case."""

    #: The keys of labels by which cost is told apart, from now on.
    labels: Annotated[tuple[Text, ...], msgspec.Meta(max_length=20)] = ()
    #: So many days after its end a month (of UTC) is closed: what changes then is a correction.
    close_after_days: Annotated[int, msgspec.Meta(ge=1, le=366)] = 7
    #: What prices are in, as an ISO 4217 code; nothing is converted.
    currency: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")] = "USD"
    biller: BillerConfig = BillerConfig()
    export: CostExportConfig = CostExportConfig()
    prices: PricesFrom = PricesFrom.CONFIGURED
    #: The first that is for a type counts.
    factor: Annotated[tuple[FactorConfig, ...], msgspec.Meta(max_length=1000)] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration.

    Once it is loaded, `ssh.private_key` is an absolute path; in a file, "" asks for its default.
    """

    cluster: Annotated[str, msgspec.Meta(max_length=100)] = "default"
    listen: Annotated[str, msgspec.Meta(max_length=300)] = "127.0.0.1:8420"
    #: A URL once it is loaded; in a file, "" asks for the default.
    store: Text = ""
    #: These two are absolute paths once they are loaded; in a file, "" asks for the default of
    #: each.
    data_dir: Text = ""
    log_dir: Text = ""
    driver: DriverConfig = DriverConfig()
    instance_types: Annotated[dict[str, TypeConfig], msgspec.Meta(max_length=1000)] = {}
    engine: EngineConfig = EngineConfig()
    ssh: SshConfig = SshConfig()
    pool: PoolSettings = PoolSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    defaults: DefaultsConfig = DefaultsConfig()
    limits: LimitsConfig = LimitsConfig()
    auth: AuthConfig = AuthConfig()
    tls: TlsConfig = TlsConfig()
    audit: AuditConfig = AuditConfig()
    cost: CostConfig = CostConfig()
    #: By name, which refusals tell.
    policies: Annotated[dict[str, PolicyConfig], msgspec.Meta(max_length=100)] = {}
    #: Names in the entry-point group `longshore.policies`.
    own_policies: Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)] = ()
    secrets: SecretsConfig = SecretsConfig()
    #: By name, which notices and refusals tell.
    budgets: Annotated[dict[str, BudgetConfig], msgspec.Meta(max_length=1000)] = {}
    notifications: NotificationsConfig = NotificationsConfig()
    traces: TracesConfig = TracesConfig()
