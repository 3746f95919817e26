"""What an easyconfig of LUMI's, or a recipe or module of SHPC, becomes here.

Looks down at: easyconfig, fetch, host, eb, site, container, image, text.
"""
