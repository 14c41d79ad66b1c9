import ssl
from datetime import UTC, datetime
from typing import Any

import aiohttp
import anyio
import orjson
import pytest

from gpustack_ctl.webhooks import pki, server

REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "object": {"metadata": {"name": "half-a"}},
    },
}


async def ask(served: Any, *, body: bytes | None = None, path: str = "/test", method: str = "POST") -> tuple[int, str]:
    url = f"https://127.0.0.1:{served.port}{path}"
    data = orjson.dumps(REVIEW) if body is None else body
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=data, ssl=served.trusting()) as response,
    ):
        return response.status, await response.text()


async def still_answers(served: Any) -> bool:
    status, text = await ask(served)
    return status == 200 and orjson.loads(text)["response"]["allowed"] is True


async def connected(served: Any) -> anyio.abc.ByteStream:
    return await anyio.connect_tcp(
        "127.0.0.1", served.port, tls=True, ssl_context=served.trusting(), tls_standard_compatible=False
    )


async def test_a_review_is_answered(serve):
    async with serve() as served:
        assert await still_answers(served)


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"", "not JSON"), (b"\x00\xff", "not JSON"), (b"{}", "apiVersion is missing"), (b"[1]", "not an object")],
)
async def test_a_malformed_review_gets_a_reason_and_the_server_goes_on(serve, body, reason):
    async with serve() as served:
        status, text = await ask(served, body=body)
        assert status == 400
        assert reason in text
        assert await still_answers(served)


async def test_a_body_past_the_limit_is_refused_unread(serve, monkeypatch):
    monkeypatch.setattr(server, "_BODY_BYTES", 100_000)
    async with serve() as served:
        status, text = await ask(served, body=b" " * 200_000)
        assert (status, text) == (400, "the body is larger than 100000 bytes\n")
        assert await still_answers(served)


async def test_only_the_paths_of_webhooks_are_served_and_only_by_post(serve):
    async with serve() as served:
        assert (await ask(served, path="/"))[0] == 404
        assert (await ask(served, method="GET", body=b""))[0] == 400
        assert await still_answers(served)


async def test_a_client_that_speaks_no_tls_is_dropped_and_the_server_goes_on(serve):
    async with serve() as served:
        async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()
        assert await still_answers(served)


async def test_garbage_inside_tls_is_dropped_and_the_server_goes_on(serve):
    async with serve() as served:
        async with await connected(served) as stream:
            await stream.send(b"\x00\x01\x02\r\n\r\n")
            with anyio.fail_after(5):
                assert b"400" in await stream.receive()
        assert await still_answers(served)


async def test_a_client_that_leaves_in_the_middle_of_its_body_costs_nothing(serve):
    async with serve() as served:
        async with await connected(served) as stream:
            await stream.send(b"POST /test HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
            await anyio.sleep(0.1)
        assert await still_answers(served)


async def test_a_body_that_does_not_come_is_not_waited_for(serve, monkeypatch):
    monkeypatch.setattr(server, "_BODY_SECONDS", 0.2)
    async with serve() as served, await connected(served) as stream:
        await stream.send(b"POST /test HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
        with anyio.fail_after(5):
            answer = await stream.receive()
        assert b"400 Bad Request" in answer
        assert b"did not arrive" in answer
        assert await still_answers(served)


async def test_a_connection_that_says_nothing_is_closed(serve, monkeypatch):
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.3)
    async with serve() as served, await connected(served) as stream:
        await stream.send(b"POST /te")
        with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        assert await still_answers(served)


async def test_a_verdict_that_fails_is_one_failed_answer(serve):
    def broken(question: Any) -> Any:
        raise ZeroDivisionError(question.name)

    async with serve(broken) as served:
        assert (await ask(served))[0] == 500
        assert (await ask(served, body=b"{}"))[0] == 400


async def test_a_request_in_flight_is_finished_before_the_server_goes(serve):
    body = orjson.dumps(REVIEW)
    async with serve() as served, await connected(served) as stream:
        await stream.send(b"POST /test HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:10])
        await anyio.sleep(0.1)
        served.scope.cancel()
        await anyio.sleep(0.1)
        assert not served.server.listening
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp("127.0.0.1", served.port)
        await stream.send(body[10:])
        with anyio.fail_after(5):
            assert b"200 OK" in await stream.receive()
            await served.gone.wait()


async def test_a_server_that_leaves_serves_on_for_its_notice_and_keeps_no_connection(serve):
    async with serve(notice=0.5) as served:
        served.scope.cancel()
        await anyio.sleep(0.1)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"https://127.0.0.1:{served.port}/test", json=REVIEW, ssl=served.trusting()) as response,
        ):
            assert response.status == 200
            assert response.headers["Connection"] == "close"
        with anyio.fail_after(5):
            await served.gone.wait()


async def test_a_new_certificate_is_served_without_dropping_an_open_connection(serve):
    async with serve() as served, aiohttp.ClientSession() as session:
        url, body, before = f"https://127.0.0.1:{served.port}/test", orjson.dumps(REVIEW), served.trusting()
        async with session.post(url, data=body, ssl=before) as response:
            assert response.status == 200
            await response.read()
        made = pki.first({"127.0.0.1"}, datetime.now(UTC))
        served.tls.install(made.leaf, trusted=made.trusted)
        async with session.post(url, data=body, ssl=before) as response:
            assert response.status == 200, "the open connection goes on"
            await response.read()
        assert await still_answers(served), "a new connection meets the new certificate"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            async with aiohttp.ClientSession() as other, other.post(url, data=body, ssl=before):
                pass


async def test_a_pair_that_does_not_match_leaves_the_served_one_alone(serve):
    async with serve() as served:
        one, other = pki.first({"127.0.0.1"}, datetime.now(UTC)), pki.first({"127.0.0.1"}, datetime.now(UTC))
        with pytest.raises(pki.CertificateError):
            served.tls.install(pki.Pair(one.leaf.certificate, other.leaf.key), trusted=one.trusted)
        assert await still_answers(served)


async def test_a_port_that_is_taken_is_named(serve):
    async with serve() as served:
        second = server.Server([], host="127.0.0.1", port=served.port, tls=served.tls.context)
        with pytest.raises(server.CannotListenError, match=f"cannot listen on 127.0.0.1:{served.port}: .*in use"):
            await second.run()


async def test_a_client_that_offers_only_an_old_tls_is_refused(serve):
    async with serve() as served:
        old = served.trusting()
        with pytest.warns(DeprecationWarning):
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            await anyio.connect_tcp("127.0.0.1", served.port, tls=True, ssl_context=old)
        assert await still_answers(served)
