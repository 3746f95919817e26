"""What the cluster says: its settings, their files, kinds and schema."""
