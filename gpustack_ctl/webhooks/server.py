"""The HTTPS server behind our webhooks.

Its one client is the API server, and every create of a queued Pod waits for it, so nothing that a stranger
sends may stop it or keep it busy: a handshake, a body and an idle connection each have a time limit, a body has
a size limit, and a body that is no AdmissionReview is answered with 400 and a reason. It speaks HTTP/1.1 from
aiohttp's low-level server, because a router and middlewares have nothing to add to a dictionary of paths.
"""

import asyncio
import ssl
from collections.abc import Iterable
from time import perf_counter

import anyio
import structlog
from aiohttp import web
from anyio.abc import TaskStatus

from gpustack_ctl.webhooks import metrics, review
from gpustack_ctl.webhooks.review import MalformedReviewError, Question, Refused
from gpustack_ctl.webhooks.webhook import Webhook

log = structlog.get_logger()

# An object is at most 3 MiB on its way into the API server; an UPDATE carries two of them.
_BODY_BYTES = 8 * 1024 * 1024
_BODY_SECONDS = 10
_HANDSHAKE_SECONDS = 10
# The API server keeps idle connections for 90 s. Closing one earlier than it does would race with its next request.
_IDLE_SECONDS = 100
# A client that sends more than we will read is listened to this long, so that it gets to read our answer.
_LINGERING_SECONDS = 1
# How long requests in flight may take once we are told to go; the API server gives up on them after 5 s.
_DRAIN_SECONDS = 6


class CannotListenError(Exception):
    """The address is taken, not ours, or not allowed; the text names it."""


class Server:
    """Answers admission reviews on one port until cancelled, then leaves without dropping one.

    Leaving takes two steps. For `notice` seconds everything is still served while those who route to us learn that we
    go, and every answer closes its connection, so that the API server's next request goes elsewhere. Then nobody new is
    let in and those in flight are finished.
    """

    def __init__(
        self, webhooks: Iterable[Webhook], *, host: str, port: int, tls: ssl.SSLContext, notice: float = 0
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        self._host = host
        self._port = port
        self._tls = tls
        self._notice = notice
        self._in_flight = 0
        self._finished = anyio.Event()
        #: Whether new connections are welcome.
        self.listening = False

    async def run(self, *, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve; reports the port taken (`port` 0 takes a free one). Raises CannotListenError."""
        connections = web.Server(
            self._handle, keepalive_timeout=_IDLE_SECONDS, lingering_time=_LINGERING_SECONDS, access_log=None
        )
        listener = await self._listen(connections)
        try:
            self.listening = True
            task_status.started(listener.sockets[0].getsockname()[1])
            await anyio.sleep_forever()
        finally:
            self.listening = False
            with anyio.CancelScope(shield=True):
                await self._leave(listener, connections)

    async def _listen(self, connections: web.Server) -> asyncio.Server:
        try:
            return await asyncio.get_running_loop().create_server(
                connections,
                self._host,
                self._port,
                ssl=self._tls,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=1,
            )
        except OSError as cause:
            raise CannotListenError(
                f"the webhooks cannot listen on {self._host}:{self._port}: {cause.strerror}"
            ) from cause

    async def _leave(self, listener: asyncio.Server, connections: web.Server) -> None:
        await anyio.sleep(self._notice)
        listener.close()
        with anyio.move_on_after(_DRAIN_SECONDS):
            # aiohttp's own shutdown stops reading at once, and a body that is half here would never be whole.
            while self._in_flight:
                self._finished = anyio.Event()
                await self._finished.wait()
        connections.pre_shutdown()
        await connections.shutdown(1)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        started = perf_counter()
        webhook = self._webhooks.get(request.path)
        if webhook is None:
            return web.Response(status=404, text=f"no webhook is served at {request.path}\n")
        verdict = "error"
        self._in_flight += 1
        try:
            response, verdict = await _answer(webhook, request)
        finally:
            self._in_flight -= 1
            self._finished.set()
            metrics.review_seconds.labels(webhook.name, verdict).observe(perf_counter() - started)
        if not self.listening:
            response.force_close()
        return response


async def _answer(webhook: Webhook, request: web.BaseRequest) -> tuple[web.Response, str]:
    try:
        question = review.read(await _body(request))
        verdict = webhook.decide(question)
    except MalformedReviewError as fault:
        log.warning("refused a malformed admission review", webhook=webhook.name, peer=request.remote, fault=str(fault))
        return web.Response(status=400, text=f"{fault}\n"), "malformed"
    response = web.Response(body=review.answer(question, verdict), content_type="application/json")
    if isinstance(verdict, Refused):
        _log_refusal(webhook, question, verdict)
        return response, "refused"
    return response, "allowed"


def _log_refusal(webhook: Webhook, question: Question, verdict: Refused) -> None:
    log.info(
        "refused",
        webhook=webhook.name,
        kind=question.kind,
        namespace=question.object["metadata"].get("namespace"),
        name=question.name,
        faults=[str(error) for error in verdict.errors],
    )


async def _body(request: web.BaseRequest) -> bytes:
    if request.method != "POST":
        raise MalformedReviewError(f"an admission review is sent with POST, not {request.method}")
    try:
        with anyio.fail_after(_BODY_SECONDS):
            body = bytearray()
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > _BODY_BYTES:
                    raise MalformedReviewError(f"the body is larger than {_BODY_BYTES} bytes")
            return bytes(body)
    except TimeoutError as cause:
        raise MalformedReviewError(f"the body did not arrive within {_BODY_SECONDS} s") from cause
