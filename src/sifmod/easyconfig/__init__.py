"""How an easyconfig is written, and how one in another style is converted.

Looks down at: install, fetch, host, eb, site, container, image, text.
"""
