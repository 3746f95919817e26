"""What is in an image, read from its files alone.

Looks down at: text, inside.
"""
