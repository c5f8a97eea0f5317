"""What the service bears: reads and plans at a steady rate, whatever the answers take."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.asking import Answer, Asking
from tests.benchmarks.measuring import Row, Said, Size
from workloads.errors import SheafError

if TYPE_CHECKING:
    import httpx

_NAME = "service"
READS, PLANS = 200, 20  # a second
NEW = 10  # one plan in so many was not asked for before
_WORKLOAD = "shop"


@dataclass
class Load:
    """What became of the requests: seconds from when each was due, and what went wrong."""

    reads: list[float] = field(default_factory=list)
    plans: list[float] = field(default_factory=list)
    made: list[float] = field(default_factory=list)  # of the plans, those not asked for before
    errors: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # bytes of the service, second by second
    cpu: float = 0.0  # seconds of a core that the service took

    def growth(self) -> float:
        """Bytes that the second half of the time added, from median to median of its quarters."""
        third, last = _median(_quarter(self.memory, 2)), _median(_quarter(self.memory, 3))
        return last - third


def by_load(size: Size) -> Iterator[Row]:
    """The service in a process of its own, on the same machine as those who ask.

    So many reads (lists, workloads, plans as JSON and as text) and plans of the bundled workload
    `shop` are due each second, evenly; times are from when each was due. A plan that was asked for
    before is remembered: one in ten is asked for with other rates, and is made.
    """
    seconds = 600.0 if size == "full" else 3.0
    load = asyncio.run(measured(seconds))
    for name, rate, found in (
        ("reads", READS, load.reads),
        ("plans", PLANS, load.plans),
        ("plans that are new, of these", PLANS / NEW, load.made),
    ):
        p50, p99 = percentile(found, 50), percentile(found, 99)
        yield Said(
            _NAME,
            f"{rate:g} {name} a second for {seconds:g} s: {len(found):,} answered, half of them "
            f"within {1000 * p50:.1f} ms, 99 % within {1000 * p99:.1f} ms.",
            {"rate": rate, "answers": len(found), "p50": p50, "p99": p99},
        )
    first, last = load.memory[0], load.memory[-1]
    yield Said(
        _NAME,
        f"{len(load.errors)} errors. The service takes {load.cpu / seconds:.0%} of a core. It "
        f"holds {first / 1e6:.0f} MB at the beginning and {last / 1e6:.0f} MB at the end; from the "
        f"third to the last quarter of the time it grew by {load.growth() / 1e6:.1f} MB.",
        {
            "errors": len(load.errors),
            "cores": load.cpu / seconds,
            "first": first,
            "last": last,
            "growth": load.growth(),
        },
    )
    if load.errors:
        raise SheafError(f"the service answered with errors: {load.errors[0]}")


async def measured(seconds: float, reads: int = READS, plans: int = PLANS) -> Load:
    """A service under load for so many seconds."""
    load = Load()
    async with _served() as (http, process):
        workload, rates, addresses = await _prepared(http)
        asking = Asking(http.base_url.port or 80)

        async def read(number: int, due: float) -> None:
            address = addresses[number % len(addresses)]
            await _timed(asking.ask("GET", address), due, load.errors, load.reads)

        async def plan(number: int, due: float) -> None:
            is_new = number % NEW == 0
            known = {kind: rate + number / 1000 for kind, rate in rates.items()}
            wanted = json.dumps({"statistics": {"rates": known}} if is_new else {}).encode()
            request = asking.ask("POST", f"/v1/workloads/{workload}/plans", wanted)
            kept = (load.plans, load.made) if is_new else (load.plans,)
            await _timed(request, due, load.errors, *kept)

        end, before = time.perf_counter() + seconds, _cpu(process.pid)
        await asyncio.gather(
            _at_rate(reads, end, read),
            _at_rate(plans, end, plan),
            _watched(process.pid, end, load),
        )
        load.cpu = _cpu(process.pid) - before
        asking.close()
    return load


async def _at_rate(rate: int, end: float, request: Callable[[int, float], Awaitable[None]]) -> None:
    """Begin requests as they are due, and wait for the last of them."""
    start, number = time.perf_counter(), 0
    under_way: set[asyncio.Future[None]] = set()
    while (due := start + number / rate) < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.ensure_future(request(number, due))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        number += 1
    await asyncio.gather(*under_way)


async def _timed(
    request: Awaitable[Answer], due: float, errors: list[str], *kept: list[float]
) -> None:
    """Keep how long after its time a request was answered."""
    try:
        answer = await request
    except OSError as error:
        errors.append(repr(error))
        return
    passed = time.perf_counter() - due
    for seconds in kept:
        seconds.append(passed)
    if answer.status >= 400:
        errors.append(f"{answer.status} {answer.body[:200]!r}")


async def _watched(process: int, end: float, load: Load) -> None:
    while time.perf_counter() < end:
        load.memory.append(_resident(process))
        await asyncio.sleep(min(1.0, max(0.0, end - time.perf_counter())))
    load.memory.append(_resident(process))


async def _prepared(http: httpx.AsyncClient) -> tuple[str, dict[str, float], list[str]]:
    """A workload, the rates that it gives, and what can be read of it and of a plan of it."""
    import yaml

    from workloads import bundled

    document = bundled.path(_WORKLOAD).read_bytes()
    headers = {"content-type": "application/yaml"}
    workload = (await http.post("/v1/workloads", content=document, headers=headers)).json()["id"]
    plan = (await http.post(f"/v1/workloads/{workload}/plans", json={})).json()["id"]
    return (
        workload,
        yaml.safe_load(document)["statistics"]["rates"],
        [
            "/v1/workloads",
            f"/v1/workloads/{workload}",
            "/v1/plans?limit=20",
            f"/v1/plans/{plan}",
            f"/v1/plans/{plan}?format=text",
            "/v1/jobs",
            "/healthz",
        ],
    )


@asynccontextmanager
async def _served() -> AsyncIterator[tuple[httpx.AsyncClient, subprocess.Popen[bytes]]]:
    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="sheaf-bench-") as folder:
        log = Path(folder) / "log"
        sheaf = "import sys; from api.cli.main import main; sys.argv[0] = 'sheaf'; main()"
        options = ["serve", "--port", str(port), "--data", folder, "--log", "json"]
        command = [sys.executable, "-P", "-c", sheaf, *options]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        limits = httpx.Limits(max_connections=64)
        try:
            async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as http:
                await _ready(http, process, log)
                yield http, process
        finally:
            process.terminate()
            process.wait()


async def _ready(http: httpx.AsyncClient, process: subprocess.Popen[bytes], log: Path) -> None:
    import httpx

    while process.poll() is None:
        try:
            if (await http.get("/readyz")).status_code == 200:
                return
        except httpx.TransportError:
            await asyncio.sleep(0.05)
    raise SheafError(f"the service did not start: {log.read_text()[-2000:]}")


def percentile(seconds: list[float], percent: float) -> float:
    """The time within which so many of a hundred answers came."""
    import numpy as np

    return float(np.percentile(seconds, percent)) if seconds else float("nan")


def _median(values: list[int]) -> float:
    import numpy as np

    return float(np.median(values)) if values else 0.0


def _quarter(values: list[int], number: int) -> list[int]:
    size = max(1, len(values) // 4)
    return values[number * size : (number + 1) * size]


def _resident(process: int) -> int:
    """Bytes of memory that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cpu(process: int) -> float:
    """Seconds of a core that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
