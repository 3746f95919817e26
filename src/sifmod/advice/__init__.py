"""What is known to go wrong, with which containers and on which nodes."""
