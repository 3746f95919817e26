"""What is in an image, read from its files alone."""
