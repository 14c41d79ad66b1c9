"""The webhooks alone in a process of their own, as a replica runs them, with /metrics: KUBECONFIG NAMESPACE PORT
METRICS."""

import sys

import anyio

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.telemetry import logs
from gpustack_ctl.telemetry.health import Health
from gpustack_ctl.webhooks.run import WebhookConfig, Webhooks


async def main(kubeconfig: str, namespace: str, port: str, metrics: str) -> None:
    logs.configure(level="warning")
    url = f"https://127.0.0.1:{port}"
    config = WebhookConfig(host="127.0.0.1", port=int(port), url=url, namespace=namespace)
    async with Kube.connect(kubeconfig=kubeconfig) as kube, anyio.create_task_group() as tasks:
        informers = Informers(kube)
        webhooks = Webhooks(config, kube=kube, informers=informers, table=manufacturers())
        health = Health()
        health.require("webhooks", lambda: webhooks.ready)
        tasks.start_soon(informers.run)
        await tasks.start(webhooks.serve)
        tasks.start_soon(webhooks.register)
        tasks.start_soon(lambda: health.serve(host="127.0.0.1", port=int(metrics)))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
