"""Where the self-contained program begins."""

import sys

if any("multiprocessing" in word for word in sys.argv):
    # A process of a pool: PyInstaller starts this program again for it.
    from multiprocessing import freeze_support

    freeze_support()

from kdump.__main__ import main

main()
