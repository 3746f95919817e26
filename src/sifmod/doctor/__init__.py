"""Whether host, site, image and installations fit each other.

Looks down at: installed, install, usersoftware, fetch, host, eb, site, container, image, advice, text, inside.
"""
