# One image for both roles: `manager` in a Deployment, `node-agent` in a DaemonSet.
FROM python:3.13-slim AS build
COPY --from=ghcr.io/astral-sh/uv:0.9 /uv /usr/local/bin/uv
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv sync --frozen --no-dev --no-install-project --compile-bytecode
COPY gpustack_ctl gpustack_ctl
RUN uv sync --frozen --no-dev --no-editable --compile-bytecode

FROM python:3.13-slim
COPY --from=build /src/.venv /src/.venv
ENV PATH=/src/.venv/bin:$PATH PYTHONUNBUFFERED=1
# The manager needs nothing of root; the agent's DaemonSet says for itself that it does.
USER 65532:65532
ENTRYPOINT ["gpustack-ctl"]
CMD ["manager"]
