"""What the cluster says: its settings, and the files, kinds and schema that they are read by.

Looks down at: container, text.
"""
