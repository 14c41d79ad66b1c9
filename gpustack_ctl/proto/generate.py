"""Regenerate the Python beside the `.proto` files: `python -m gpustack_ctl.proto.generate`, from the checkout's root.

Needs grpcio-tools, a development dependency. The paths are relative to the root on purpose: protoc writes them into the
generated imports.
"""

import sys
from pathlib import Path


def main() -> int:
    from grpc_tools import protoc

    sources = sorted(str(path) for path in Path("gpustack_ctl/proto").glob("*.proto"))
    if not sources:
        sys.exit("no gpustack_ctl/proto/*.proto here: run this from the root of the checkout")
    return int(protoc.main(["protoc", "-I.", "--python_out=.", "--pyi_out=.", "--grpclib_python_out=.", *sources]))


if __name__ == "__main__":
    sys.exit(main())
