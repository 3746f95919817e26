"""How an easyconfig is written for an image, a file to build one from, or a module.

Looks down at: fetch, host, eb, site, container, image, text.
"""
