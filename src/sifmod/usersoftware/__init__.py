"""What is in a tree of user software, and which copy of it is in use.

Looks down at: host, site, container, image, text, inside.
"""
