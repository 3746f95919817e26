"""What users find and copy: installed and offered containers as data and as pages.

Looks down at: doctor, installed, install, easyconfig, usersoftware, render, host, eb, site, container, text.
"""
