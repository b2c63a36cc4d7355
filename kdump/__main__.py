"""``python -m kdump``, and the console script."""

import gc
import os
import sys
from importlib import import_module
from types import ModuleType


def main() -> None:
    """Run the command line. An interrupt ends it with status 130 also while its modules are imported."""
    # numpy starts a thread of OpenBLAS for each core, which costs a third of its import. kdump multiplies no matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # click and dataclasses import it for what the command line does not need. It is a tenth of the start.
    _import_when_used("inspect")
    # What the start makes stays. To look through it for garbage every 700 objects would be a thirtieth of the start.
    gc.set_threshold(50_000)
    try:
        from kdump.cli.main import main as run

        run()
    except KeyboardInterrupt:
        from kdump.cli.exit_status import INTERRUPTED

        os._exit(INTERRUPTED)


def _import_when_used(name: str) -> None:
    """Put a module there that loads itself when something in it is asked for.

    ``importlib.util.LazyLoader`` does so already when it is imported.
    """
    module = ModuleType(name)

    def load(attribute: str) -> object:
        del sys.modules[name]
        vars(module).update(vars(import_module(name)))
        return getattr(import_module(name), attribute)

    vars(module)["__getattr__"] = load
    sys.modules.setdefault(name, module)


if __name__ == "__main__":
    main()
