"""What runs in a container, with the image's own Python (3.6 or later); nothing here imports sifmod."""
