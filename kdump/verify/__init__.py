"""What is wrong with a segment, a partition or a log directory: findings with codes, nothing printed."""
