"""kubernetes-asyncio's configuration and transport without its models.

The package's own ``__init__`` imports every generated model and API class: 70 MiB and more than a second, in each
process, for classes this program never uses. Configuration, credentials and the HTTP session live in modules that need
none of them, so those are imported under bare parent packages whose ``__init__`` is not run. The parents are taken
away again afterwards: somebody who imports kubernetes_asyncio for itself gets the whole package as usual.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def _bare(name: str, folder: Path) -> ModuleType:
    """A package that finds its submodules and runs nothing of its own."""
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    return package


def _load() -> tuple[Any, Any, Any, Any]:
    if "kubernetes_asyncio.client" in sys.modules:
        return _import()
    found = importlib.util.find_spec("kubernetes_asyncio")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("kubernetes_asyncio")
    root = Path(found.submodule_search_locations[0])
    parents = {
        "kubernetes_asyncio": _bare("kubernetes_asyncio", root),
        "kubernetes_asyncio.client": _bare("kubernetes_asyncio.client", root / "client"),
    }
    sys.modules.update(parents)
    try:
        configuration = importlib.import_module("kubernetes_asyncio.client.configuration").Configuration
        client: Any = parents["kubernetes_asyncio.client"]
        client.Configuration = configuration
        client.ApiClient = None  # named in signatures of functions that are not used here
        return _import()
    finally:
        for name in parents:
            sys.modules.pop(name, None)


def _import() -> tuple[Any, Any, Any, Any]:
    configuration = importlib.import_module("kubernetes_asyncio.client.configuration")
    rest = importlib.import_module("kubernetes_asyncio.client.rest")
    config = importlib.import_module("kubernetes_asyncio.config")
    return (
        configuration.Configuration,
        rest.RESTClientObject,
        config,
        config.ConfigException,
    )


Configuration, RESTClient, config, ConfigException = _load()
