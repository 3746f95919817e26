"""What is in an image, read from its files alone: no container runtime, no site."""
