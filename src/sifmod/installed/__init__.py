"""What is there after an install: installation, verification, removal, kernel.

Looks down at: install, usersoftware, fetch, render, host, eb, site, container, image, text,
inside.
"""
