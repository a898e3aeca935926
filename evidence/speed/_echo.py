"""What sites are compared with: the engine's own messages, of the same size, on the same way."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.defs import ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message

from silot.sites.engine import CHANNEL
from silot.sites.flare import ServerComponent, SiteComponent

ECHO, RELAY, TIME = "echo", "relay", "time"


class EchoAtSite(SiteComponent):
    """Answers a number with so many bytes, too."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            _cell(fl_ctx).register_request_cb(channel=CHANNEL, topic=ECHO, cb=_echo)


class EchoAtServer(ServerComponent):
    """Times exchanges with all sites, too."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        if event_type != EventType.SYSTEM_START:
            return
        cell = _cell(fl_ctx)

        def echo(name: str, size: int) -> bytes:
            reply = cell.send_request(
                channel=CHANNEL, topic=ECHO, target=name, timeout=120.0,
                request=new_cell_message({}, str(size).encode()),
            )  # fmt: skip
            return reply.payload

        def times(message: Any) -> Any:
            asked = json.loads(bytes(message.payload))
            names, size = asked["names"], asked["size"]
            seconds: list[float] = []
            with ThreadPoolExecutor(len(names)) as pool:
                for _ in range(asked["rounds"]):
                    began = time.perf_counter()
                    replies = pool.map(lambda name: len(echo(name, size)), names)
                    assert set(replies) == {size}
                    seconds.append(time.perf_counter() - began)
            return make_reply(ReturnCode.OK, "", json.dumps(seconds).encode())

        def relays(message: Any) -> Any:
            asked = json.loads(bytes(message.payload))
            return make_reply(ReturnCode.OK, "", echo(asked["name"], asked["size"]))

        cell.register_request_cb(channel=CHANNEL, topic=TIME, cb=times)
        cell.register_request_cb(channel=CHANNEL, topic=RELAY, cb=relays)


def _echo(message: Any) -> Any:
    return make_reply(ReturnCode.OK, "", bytes(int(bytes(message.payload))))


def _cell(context: FLContext) -> Any:
    engine: Any = context.get_engine()
    return engine.get_cell()
