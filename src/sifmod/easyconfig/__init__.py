"""How an easyconfig is written for an image, a file to build one from, or a module."""
