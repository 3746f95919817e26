"""What an easyconfig describes: the validated spec, its bind paths, its variables."""
