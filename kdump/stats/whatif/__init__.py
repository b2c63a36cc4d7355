"""Questions that operators ask of a log: what would it be with other settings?"""
