"""What the cluster says: its settings, and the files, kinds and schema that define them."""
