"""How text and an image become an installation on disk, and the way back.

Looks down at: usersoftware, fetch, render, host, site, container, image, advice, text, inside.
"""
