"""Where an image comes from: URI, registry, credentials, store, signature, definition file.

Looks down at: host, site, container, image, text.
"""
