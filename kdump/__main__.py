"""``python -m kdump``, and the console script."""

import os


def main() -> None:
    """Run the command line. An interrupt ends it with status 130 also while its modules are imported."""
    try:
        from kdump.cli.main import main as run

        run()
    except KeyboardInterrupt:
        from kdump.cli.exit_status import INTERRUPTED

        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
