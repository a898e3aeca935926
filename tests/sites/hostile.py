"""A component of a server that tries what a site must refuse, whatever rights the server gives."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.private.admin_defs import Message
from nvflare.private.defs import SysCommandTopic, TrainingTopic

from silot.sites.engine import CHANNEL
from silot.sites.flare import ServerComponent

TOPICS = {
    SysCommandTopic.SHELL: "ls local",
    SysCommandTopic.SYS_INFO: "",
    SysCommandTopic.REPORT_ENV: "",
    SysCommandTopic.CONFIGURE_SITE_LOG: "DEBUG",
    TrainingTopic.DEPLOY: b"an application",
    TrainingTopic.START_JOB: "",
    TrainingTopic.CHECK_STATUS: "",
    TrainingTopic.RESTART: "",
    TrainingTopic.SHUTDOWN: "",
}


class Hostile(ServerComponent):
    """Relays, and once a file says so sends a site every command, without asking for rights."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            cell = fl_ctx.get_engine().get_cell()
            threading.Thread(target=_attack, args=(cell, Path.cwd()), daemon=True).start()


def _attack(cell: Any, folder: Path) -> None:
    pause = threading.Event()
    while not (folder / "go").exists():
        pause.wait(0.1)
    main, event = CellChannel.CLIENT_MAIN, Shareable({"data": 1})
    tries: dict[str, tuple[str, str, Any]] = {
        topic: (main, topic, Message(topic=topic, body=body)) for topic, body in TOPICS.items()
    }
    tries["aux"] = CellChannel.AUX_COMMUNICATION, "fed.event", event
    tries["command"] = CellChannel.CLIENT_COMMAND, "abort", {}
    # What the engine would decode, on the one channel that is open.
    tries["packed"] = CHANNEL, "ask", {"data": 1}
    with ThreadPoolExecutor(len(tries)) as pool:
        said = pool.map(lambda asked: _said(cell, *asked), tries.values())
        replies = dict(zip(tries, said, strict=True))
    (folder / "replies.part").write_text(json.dumps(replies))
    (folder / "replies.part").rename(folder / "replies.json")


def _said(cell: Any, channel: str, topic: str, body: Any) -> list[str]:
    reply = cell.send_request(
        channel=channel, topic=topic, target="north", request=new_cell_message({}, body),
        timeout=5.0, optional=True,
    )  # fmt: skip
    return [str(reply.get_header(MessageHeaderKey.RETURN_CODE)), str(reply.payload)[:200]]
