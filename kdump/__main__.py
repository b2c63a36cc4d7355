"""``python -m kdump``, and the console script."""

import os


def main() -> None:
    """Run the command line. An interrupt ends it with status 130 also while its modules are imported."""
    # numpy starts a thread of OpenBLAS for each core, which costs a third of its import. kdump multiplies no matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from kdump.cli.main import main as run

        run()
    except KeyboardInterrupt:
        from kdump.cli.exit_status import INTERRUPTED

        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
