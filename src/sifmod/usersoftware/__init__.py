"""What is in a tree of user software, and which copy of it is in use."""
