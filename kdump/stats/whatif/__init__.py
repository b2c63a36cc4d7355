"""What-if questions of operators: what would a log be with other settings?"""
