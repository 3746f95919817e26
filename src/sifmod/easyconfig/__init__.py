"""How an easyconfig is written, and how one in another style is converted.

Looks down at: fetch, host, eb, site, container, image, text.
"""
