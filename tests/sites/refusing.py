"""A server that refuses registrations, and a site that tries it few times."""

from __future__ import annotations

import os

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.private.defs import ClientType

from silot.sites.flare import ServerComponent, SiteComponent

VARIABLE = "SILOT_REFUSALS"


class Refusing(ServerComponent):
    """Refuses as many registrations as its environment says."""

    refused = 0

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        if event_type != EventType.CLIENT_REGISTER_RECEIVED:
            return
        is_site = fl_ctx.get_prop(FLContextKey.CLIENT_TYPE) == ClientType.REGULAR
        if is_site and self.refused < int(os.environ[VARIABLE]):
            self.refused += 1
            print("refused", flush=True)
            refusal = {"test": NotAuthenticated("not now")}
            fl_ctx.set_prop(FLContextKey.EXCEPTIONS, refusal, sticky=False, private=True)


class Impatient(SiteComponent):
    """Tries three times."""

    registration_tries = 3
