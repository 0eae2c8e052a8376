"""What an attempt really took, from its exit to whom it is told, and that it costs nothing."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from longshore.pool.model import AttemptExit, AttemptReport, ExitKind
from longshore.pool.usage import AttemptUsage
from tests.api_server import connected
from tests.rigs.api import ApiRig
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

USED = AttemptUsage(peak_memory_bytes=5, cpu_seconds=2.5, written_bytes=0)
TOLD = {
    "peak_memory_bytes": 5,
    "mean_memory_bytes": None,
    "cpu_seconds": 2.5,
    "read_bytes": None,
    "written_bytes": 0,
    "gpu_peak_memory_bytes": None,
    "gpu_mean_utilization": None,
}


async def test_it_is_in_the_answer_and_in_the_event_of_the_end() -> None:
    async with connected() as client:
        rig: ApiRig = client.rig
        await rig.add_instance("i-1")
        url = f"{client.url}/v1/events"
        async with client.session.get(url) as stream, asyncio.timeout(20):
            ids = []
            for used in (USED, None):
                _, made = await client.post("/v1/containers", {"command": ["true"], "cpus": 1})
                ids.append(made["id"])
                await rig.start(made["id"], "i-1")
                _, running = await client.call("GET", f"/v1/containers/{made['id']}")
                assert running["attempts"][0]["usage"] is None
                await rig.finish(made["id"], usage=used)
            read = b""
            while read.count(b'"state":"succeeded"') < 2:
                read += await stream.content.readany()
        answers = [(await client.call("GET", f"/v1/containers/{each}"))[1] for each in ids]
        kept = rig.store.container(ids[0])
    assert [each["attempts"][0]["usage"] for each in answers] == [TOLD, None]
    assert b'"usage":{"peak_memory_bytes":5,"mean_memory_bytes":null,"cpu_seconds":2.5' in read
    assert kept is not None
    assert kept.attempts[0].usage == USED


def test_what_it_really_took_never_changes_its_cost() -> None:
    def cost(used: AttemptUsage | None) -> Decimal:
        rig = Rig(make_type(2))
        rig.submit(make_container(1))
        how = AttemptExit(
            kind=ExitKind.EXITED, code=0, started_at=1000.0, finished_at=4600.0, usage=used
        )
        report = AttemptReport(attempt_id="c-1-1", container_id="c-1", exit=how)
        rig.on_instance["i-001"]["c-1-1"] = report
        rig.now += 3600
        rig.crash()
        assert rig.attempts["c-1-1"].usage == used
        return rig.containers["c-1"].cost_usd

    most = 2**53
    greedy = AttemptUsage(peak_memory_bytes=most, mean_memory_bytes=most, cpu_seconds=float(most))
    assert cost(None) == cost(AttemptUsage()) == cost(greedy) > 0
