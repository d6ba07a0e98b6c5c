"""Calls test functions by name, for the conftest beside it: ``helper.py <descriptor> <device>``."""

from __future__ import annotations

import faulthandler
import importlib.util
import sys
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType


def load(path: str, modules: dict[str, ModuleType]) -> ModuleType:
    if path not in modules:
        name = f"on_device_{Path(path).stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        modules[path] = module
    return modules[path]


def main() -> None:
    faulthandler.enable()
    pipe = Connection(int(sys.argv[1]))
    if sys.argv[2] == "compiled":
        import compiled

        compiled.install()
    modules: dict[str, ModuleType] = {}
    pipe.send(None)
    while True:
        try:
            path, name, arguments = pipe.recv()
        except EOFError:
            return
        failure = None
        try:
            function = getattr(load(path, modules), name)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                function(**arguments)
        except BaseException:  # noqa: BLE001 - pytest's outcomes are no Exception
            failure = traceback.format_exc()
        pipe.send(failure)


if __name__ == "__main__":
    main()
