"""The kubelet's two local gRPC APIs: device plugin v1beta1 and pod-resources v1.

The `.proto` files are the source and state only what this package speaks; the Python beside them is generated
(`just proto`) and committed, so that an installation needs neither protoc nor grpcio.
"""
