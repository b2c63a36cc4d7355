"""What can be saved of one damaged log: its good batches, and what the files around it tell."""
