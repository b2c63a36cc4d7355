"""What kdump keeps in memory of one input at most. Real clusters come nowhere near; hostile files do.

Where a limit is reached, kdump says what it leaves out.
"""

from __future__ import annotations

from typing import Final

COMPARED_RECORDS: Final = 20_000_000
"""Records of images of the metadata log that are compared with those of its snapshots."""
