"""Must show: costs in the dashboard, as a payer, a team lead, an admin and a user are told them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator

from longshore.dispatcher.cost.money import usd_grains
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    BilledState,
    BookedHour,
    Column,
    CostGroup,
    CostOutcome,
    PriceSource,
    Total,
)
from tests.browser import Visit, chromium, visit
from tests.conftest import not_tested
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.ledger_history import book, cost_group
from tests.local_http import local_call

CONFIG: dict[str, Any] = {
    "auth": {"mode": "required"},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2},
    },
    "engine": {"name": "process", "run_as": "nobody"},
    "scheduler": {"max_instances": 1},
    "cost": {"labels": ["team"]},
    "budgets": {
        "vision": {"project": "p", "limit": 90000},
        "speech": {"project": "q", "limit": 1, "stop": "new"},
    },
}
DAYS = 75
HOUR_USD = {False: 0.2, True: 0.05}
NOBODYS = cost_group(state=BilledState.EMPTY, column=Column.SHARED, cause="empty")
GROUPS: dict[CostGroup, str] = {
    cost_group("p", "ann", "align", labels=(("team", "red"),)): "4.5",
    cost_group("p", "bob", "train", preemptible=True, zone="z-1"): "2",
    cost_group("q", "eve", "parse"): "1",
    cost_group("p", "ann", "align", outcome=CostOutcome.LOST_FAILED): "0.75",
    cost_group(
        "p", "bob", "train", preemptible=True, zone="z-1", outcome=CostOutcome.LOST_PREEMPTED
    ): "0.5",
    cost_group(
        "p", "ann", "align", state=BilledState.BOOTING, column=Column.CAUSED, cause="boot"
    ): "0.3",
    cost_group(
        "q",
        "eve",
        "parse",
        state=BilledState.BOOTING,
        column=Column.CAUSED,
        cause="failed_boot",
        outcome=CostOutcome.FAILED_BOOT,
    ): "0.2",
    NOBODYS: "1.5",
    replace(NOBODYS, state=BilledState.ROOM, cause="room"): "0.8",
    replace(NOBODYS, price_source=PriceSource.BILL): "0.1",
}
PANELS = {
    "payer": (
        *("Are we on track?", "By whom", "What it was for, by day", "What changed this week"),
        *("Spot instances", "Ledger against bill", "What nobody can be sure of"),
    ),
    "team": (
        *(
            "What is left of the budget",
            "This month, and what runs to its end",
            "By user",
            "By job name",
        ),
        *("USD per succeeded run", "Lost work", "Asked against used", "Wait against cost"),
        "The dearest runs",
    ),
    "operation": (
        *("What it costs now", "What is waste, and what moves it"),
        *("Room beside work, and who keeps it", "Boots", "Leaks and what is uncertain"),
        *("Reclaims, and what a useful hour costs", "Prices", "Budgets near or at their end"),
    ),
}


def history() -> Iterator[BookedHour]:
    """Yield two hours of each day, and the last that is over: what came to what."""
    last = int(time.time()) // 3600 - 1
    some = [hour for hour in range(last - DAYS * 24, last) if hour % 24 in (0, 10)]
    for hour in [*some, last]:
        scale = 1 + (hour // 24) % 3
        totals = {
            group: Total(
                quantity_ms=round(MS_PER_HOUR * scale * float(usd) / HOUR_USD[group.preemptible]),
                grains=usd_grains(Decimal(usd)) * scale,
                uncertain_grains=usd_grains(Decimal("0.01")) if group is NOBODYS else 0,
            )
            for group, usd in GROUPS.items()
        }
        ordered = sorted(totals.items(), key=lambda each: repr(each[0]))
        yield BookedHour(hour=hour, totals=tuple(ordered), marks=0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    if time.gmtime().tm_mday == 1 and time.gmtime().tm_hour == 0:
        pytest.skip("no hour of this month is over yet; run it again in an hour")
    directory = tmp_path_factory.mktemp("server")
    book(directory / "data", history())
    with DispatcherProcess(directory, CONFIG) as process:
        worked(process)
        yield process


def worked(server: DispatcherProcess) -> None:
    """Let something succeed, something fail, and something run on."""
    ann = token(server)
    body = {"cpus": 0.5, "memory": "64MiB"}
    ids = [
        server.call("POST", "/v1/containers", {**body, **fields}, **shown(ann))["id"]
        for fields in (
            {"name": "align", "command": ["true"]},
            {"name": "align", "command": ["false"]},
            {"name": "long", "command": ["sleep", "60"], "time_limit_s": 7200},
        )
    ]

    def states() -> list[str]:
        found = (server.call("GET", f"/v1/containers/{each}", **shown(ann)) for each in ids)
        return [each["state"] for each in found]

    wait_for(lambda: states() == ["succeeded", "failed", "running"], "all did what they do")


def token(server: DispatcherProcess, **fields: Any) -> str:
    """Return the text of a new token: a user of project p, where nothing else is said."""
    socket = Path(server.directory) / "data" / "longshore.sock"
    status, answer = local_call(
        socket, "POST", "/v1/tokens", {"user": "ann", "projects": ["p"], **fields}
    )
    assert status == 201, answer
    return str(answer["token"])


def shown(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def cost(server: DispatcherProcess, text: str, query: str = "") -> Any:
    """Return what the ledger answers of this month."""
    return server.call("GET", f"/v1/cost?limit=1000&{query}", **shown(text))


def sums(answer: Any, dimension: str, amount: str = "total") -> dict[str, float]:
    """Return what rows come to by a dimension."""
    found: dict[str, float] = {}
    for row in answer["items"]:
        name = row["by"][dimension]
        found[name] = found.get(name, 0.0) + row["amounts"][amount]
    return found


@dataclass(frozen=True, slots=True)
class Seen:
    """One panel of a view: what it shows is compared with what the API answers."""

    panel: Locator

    def figure(self, of: str) -> float:
        """Return the large number that is said to be of something."""
        whole = self.panel.locator(".figure").filter(has_text=of)
        return number(whole.locator("strong").inner_text())

    def row(self, name: str, column: int = 0) -> float:
        """Return a number of the row of a name."""
        return number(self.cell(name, column))

    def cell(self, name: str, column: int = 0) -> str:
        """Return what stands in a column of the row of a name."""
        header = self.panel.get_by_role("rowheader", name=re.compile(rf"^{re.escape(name)}\b"))
        return str(header.first.locator("xpath=..").locator("td").nth(column).inner_text())

    def text(self) -> str:
        return str(self.panel.inner_text())


def number(text: str) -> float:
    """Return the first number in what the page tells."""
    found = re.search(r"[-\u2212]?\$?[0-9][0-9,]*(\.[0-9]+)?", text)
    assert found, text
    return float(found.group().replace("\u2212", "-").replace("$", "").replace(",", ""))


def panel_of(seen: Visit, name: str) -> Seen:
    """Return a panel once nothing of it is loading any more."""
    panel = seen.page.get_by_role("region", name=name, exact=True)
    panel.wait_for()
    seen.until(lambda: "Loading" not in panel.inner_text(), f"{name} is there")
    return Seen(panel)


def near(amount: float) -> Any:
    """Return what a shown amount may be: something runs, and it is rounded to cents."""
    return pytest.approx(amount, abs=0.02)


def test_a_payer_sees_whether_it_is_on_track_and_why_not(
    server: DispatcherProcess, browser: Browser
) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    wait_for(lambda: server.call("GET", "/v1/budgets", **shown(ada))["items"], "budgets are known")
    with visit(browser, server.url) as seen:
        seen.login(ada)
        seen.page.get_by_role("link", name="Costs", exact=True).click()
        whole, told_of = cost(server, ada), server.call("GET", "/v1/cost/forecast", **shown(ada))
        track = panel_of(seen, "Are we on track?")
        assert "Not on track: speech is spent." in track.text()
        assert track.figure("this month so far") == near(whole["total"]["total"])
        assert track.figure("likely") == near(told_of["forecast"]["p10"])
        assert "UTC" in track.text()
        assert "Not included: data transfer and NAT" in track.text()
        last_month = track.figure("last month up to the same time")
        assert 0 < last_month < cost(server, ada, "from=2020-01")["total"]["total"]
        for name, amount in sums(cost(server, ada, "by=project"), "project").items():
            row = "nobody in particular" if name == "(none)" else name
            assert panel_of(seen, "By whom").row(row) == near(amount)
        by_market = sums(cost(server, ada, "by=market"), "market")
        spot = panel_of(seen, "Spot instances")
        share = by_market["preemptible"] / sum(by_market.values())
        assert spot.figure("of the cost is spot") == pytest.approx(100 * share, abs=0.5)
        # An hour on demand costs four times as much.
        assert spot.figure("saved by it") == near(3 * by_market["preemptible"])
        bills = sums(cost(server, ada, "by=price_source"), "price_source")
        month = whole["items"][0]["from"][:7]
        against = panel_of(seen, "Ledger against bill")
        assert against.row(month, 1) == near(bills["bill"])
        assert against.row(month, 2) == near(whole["total"]["total"])
        doubts = panel_of(seen, "What nobody can be sure of")
        assert doubts.figure("uncertain") == near(whole["total"]["uncertain"])
        of_projects = cost(server, ada, "by=label:team,project")["items"]
        without = [
            row["amounts"]["total"]
            for row in of_projects
            if row["by"]["label:team"] == "(none)" != row["by"]["project"]
        ]
        assert doubts.figure("without the label team") == near(sum(without))
        parts = sums(cost(server, ada, "by=outcome"), "outcome", "direct")
        lost = sum(amount for name, amount in parts.items() if name.startswith("lost:"))
        days = panel_of(seen, "What it was for, by day")
        assert number(days.text().split("lost")[1]) == near(lost)
        assert "against the seven days before" in panel_of(seen, "What changed this week").text()
        assert panel_of(seen, "What changed this week").cell("p", 1).startswith("work on here")


def test_a_number_leads_to_its_rows(server: DispatcherProcess, browser: Browser) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    with visit(browser, server.url) as seen:
        seen.login(ada)
        seen.open("costs")
        panel_of(seen, "By whom").panel.get_by_role("link", name="p", exact=True).click()
        seen.page.get_by_role("heading", name="What it is made of").wait_for()
        seen.page.get_by_role("cell", name="bob").first.wait_for()
        assert "eve" not in seen.text()
        shown_total = number(seen.page.locator(".figure strong").inner_text())
        assert shown_total == near(cost(server, ada, "project=p")["total"]["total"])
        seen.page.get_by_role("button", name="All, not only project p").click()
        seen.page.get_by_role("cell", name="eve").first.wait_for()


def test_a_lead_sees_what_is_left_and_who_spends_it(
    server: DispatcherProcess, browser: Browser
) -> None:
    lea = token(server, user="lea", role="lead")
    with visit(browser, server.url) as seen:
        seen.login(lea)
        seen.open("costs")
        (budget,) = server.call("GET", "/v1/budgets", **shown(lea))["items"]
        left = panel_of(seen, "What is left of the budget")
        assert left.row("vision", 1) == near(budget["spent"])
        assert left.row("vision", 3) == near(budget["left"])
        assert left.cell("vision", 5) == "not in its period"
        assert "it lasts to the end of" in left.text()
        told_of = server.call("GET", "/v1/cost/forecast", **shown(lea))
        now = panel_of(seen, "This month, and what runs to its end")
        assert now.figure("this month so far") == near(told_of["spent"])
        assert now.figure("container runs") == told_of["running"] == 1
        assert now.figure("may be added") == near(told_of["committed"])
        for panel, dimension in (("By user", "user"), ("By job name", "job")):
            for name, amount in sums(cost(server, lea, f"by={dimension}"), dimension).items():
                assert panel_of(seen, panel).row(name) == near(amount)
        by_job = cost(server, lea, "by=job")["items"]
        succeeded = sum(row["succeeded"] for row in by_job)
        each = panel_of(seen, "USD per succeeded run").figure("for each of 1 run that succeeded")
        assert each == near(sum(row["amounts"]["total"] for row in by_job) / succeeded)
        lost = sums(cost(server, lea, "by=outcome"), "outcome", "lost_work")
        assert panel_of(seen, "Lost work").row("failed by itself") == near(lost["lost:failed"])
        assert "1 run" not in panel_of(seen, "Asked against used").text()
        assert panel_of(seen, "Asked against used").row("align of ann") == 1
        assert panel_of(seen, "Wait against cost").row("here", 1) == 2
        dearest = panel_of(seen, "The dearest runs")
        runs = server.call("GET", "/v1/cost/runs", **shown(lea))
        assert runs["ended"] == 2
        names = dearest.panel.get_by_role("rowheader").all_inner_texts()
        assert names == [each["name"] for each in runs["dearest"]]
        assert "eve" not in re.findall(r"\w+", seen.text())


def test_an_admin_sees_what_is_waste_and_what_moves_it(
    server: DispatcherProcess, browser: Browser
) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    with visit(browser, server.url) as seen:
        seen.login(ada)
        seen.open("costs?view=operation")
        assert panel_of(seen, "What it costs now").figure("an hour") == near(0.2)
        causes = sums(cost(server, ada, "by=cause"), "cause")
        waste = panel_of(seen, "What is waste, and what moves it")
        assert waste.figure("not work") == near(sum(causes.values()) - causes["work"])
        assert waste.row("room") == near(causes["room"])
        assert "how long an idle instance is kept" in waste.cell("empty", 2)
        room = panel_of(seen, "Room beside work, and who keeps it")
        assert room.figure("an hour is room") == pytest.approx(0.2 * 0.875, abs=0.001)
        assert room.panel.get_by_role("link", name=re.compile("^c-")).count() == 1
        boots = panel_of(seen, "Boots")
        assert boots.row("here", 2) == near(causes["failed_boot"])
        leaks = panel_of(seen, "Leaks and what is uncertain")
        assert "Nothing leaks." in leaks.text()
        uncertain = cost(server, ada)["total"]["uncertain"]
        assert leaks.figure("uncertain this month") == near(uncertain)
        useful = panel_of(seen, "Reclaims, and what a useful hour costs")
        outcomes = sums(cost(server, ada, "by=outcome"), "outcome")
        lost = [row.split("$")[-1] for row in useful.text().splitlines() if "z-1" in row]
        assert [number(each) for each in lost] == [near(outcomes["lost:preempted"])]
        assert panel_of(seen, "Prices").row("here", 2) == 0.2
        budgets = panel_of(seen, "Budgets near or at their end")
        assert "budget speech is spent" in budgets.text()
        assert "vision" not in budgets.text()
        assert budgets.panel.get_by_role("link", name="q's queue").count() == 1


def test_a_user_sees_their_own_alone(server: DispatcherProcess, browser: Browser) -> None:
    ann = token(server)
    with visit(browser, server.url) as seen:
        seen.login(ann)
        seen.open("costs")
        seen.page.get_by_role("heading", name="What your work costs").wait_for()
        for name in PANELS["team"]:
            panel_of(seen, name)
        mine = cost(server, ann)["total"]["total"]
        assert panel_of(seen, "By user").row("ann") == near(mine)
        now = panel_of(seen, "This month, and what runs to its end")
        assert now.figure("this month so far") == near(mine)
        assert seen.page.get_by_role("link", name="Payer").count() == 0
        others = set(re.findall(r"\w+", seen.text())) & {"bob", "eve", "parse", "train", "speech"}
        assert others == set()
        seen.open("costs/rows?by=user")
        seen.page.get_by_role("cell", name="ann").wait_for()
        assert "bob" not in seen.text()
        seen.open("costs?view=operation")
        seen.page.get_by_role("heading", name="What your work costs").wait_for()


def test_nothing_is_no_data_and_one_problem_leaves_the_others(
    server: DispatcherProcess, browser: Browser
) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    with visit(browser, server.url) as seen:
        seen.login(ada)
        month = time.gmtime(time.time() - 200 * 86_400)
        seen.open(f"costs?month={month.tm_year}-{month.tm_mon:02}")
        assert "There is no data" in panel_of(seen, "By whom").text()
        assert "$0.00" not in panel_of(seen, "What it was for, by day").text()
        assert panel_of(seen, "Spot instances").text().count("no data") == 1
        seen.page.route("**/v1/prices", lambda route: route.abort())
        seen.open("costs?view=operation")
        assert "The server does not answer" in panel_of(seen, "Prices").text()
        assert panel_of(seen, "What it costs now").figure("an hour") == near(0.2)
        seen.faults[:] = [each for each in seen.faults if "net::ERR_FAILED" not in each]


def test_each_view_is_for_everybody(server: DispatcherProcess, browser: Browser) -> None:
    ada = token(server, user="ada", role="admin", projects=[])
    with visit(browser, server.url) as seen:
        seen.login(ada)
        for view, names in PANELS.items():
            seen.page.set_viewport_size({"width": 1280, "height": 800})
            seen.page.emulate_media(color_scheme="light")
            seen.open(f"costs?view={view}")
            for name in names:
                panel_of(seen, name)
            assert seen.barriers() == [], view
            seen.page.emulate_media(color_scheme="dark")
            assert seen.barriers(only="color-contrast") == [], view
            seen.page.set_viewport_size({"width": 360, "height": 800})
            wide = seen.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, f"{view} is wider than the screen"
        seen.open("costs/rows?by=project,cause")
        seen.page.get_by_role("cell", name="room").wait_for()
        assert seen.barriers() == []
