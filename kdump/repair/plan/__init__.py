"""What a repair would leave of a partition, and what it would cost. Nothing is written here."""
