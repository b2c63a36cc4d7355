"""What the golden, oracle and bench tests share: runs of kdump, and the comparison with the Java tool's output."""
