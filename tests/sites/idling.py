"""Lines to a server that say nothing, of one member or of many, in a process of their own.

``python -m tests.sites.idling ADDRESS ROOT KEY COUNT stream|bare CERTIFICATE...`` opens so many
lines, with the certificates in turns, and prints as JSON how many are open and why others ended,
whenever that changes, until its input ends. ``bare`` lines are TLS alone, without a stream.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
import sys
from collections import Counter
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import grpc.aio

STREAM = "/streamer.Streamer/Stream"


async def main() -> None:
    address, root, key, count, kind, *certificates = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    ends: Counter[str] = Counter()
    opened = 0

    async def stream(certificate: str) -> None:
        nonlocal opened
        parts = (Path(file).read_bytes() for file in (root, key, certificate))
        credentials = grpc.ssl_channel_credentials(*parts)
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.secure_channel(address, credentials, options) as channel:
            await channel.channel_ready()
            call: Any = channel.stream_stream(STREAM)()
            opened += 1
            with suppress(grpc.aio.AioRpcError):
                await call.read()
            ends[f"{(await call.code()).name} {await call.details()}"] += 1

    async def bare(certificate: str) -> None:
        nonlocal opened
        context = ssl.create_default_context(cafile=root)
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["h2"])
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        opened += 1
        with suppress(OSError):
            while await reader.read(1 << 12):
                pass
        ends["closed"] += 1
        writer.close()

    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    line = stream if kind == "stream" else bare
    tasks = [asyncio.create_task(line(file)) for file in islice(cycle(certificates), int(count))]
    last = ""
    while not over.done():
        failed = sum(task.done() and task.exception() is not None for task in tasks)
        now = json.dumps({"opened": opened, "failed": failed, "ends": ends})
        if now != last:
            print(last := now, flush=True)
        await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
