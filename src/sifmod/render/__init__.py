"""Which text a spec and a site become: modules, scripts, help, job scripts.

Looks down at: site, container, image, advice, text, inside.
"""
