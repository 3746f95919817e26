"""What a file of packages asks for, and how it becomes an image or user software on a base."""
