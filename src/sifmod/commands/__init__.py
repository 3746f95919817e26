"""What each verb of the command line takes and prints.

Looks down at: environment, wheels, migrate, catalogue, upkeep, doctor, installed, install, easyconfig, usersoftware,
fetch, render, host, eb, site, container, image, advice, text.
"""

PROGRAM = "sifmod"
