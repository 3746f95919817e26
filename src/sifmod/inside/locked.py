"""Writes what pip needs to install a lock: one requirement for each wheel, and a page of links to the wheels.

    locked.py FOLDER

FOLDER has pylock.toml, as `sifmod environment` writes it, and those of its wheels that are not downloaded. A URL as
requirement would leave it in the image.
"""

import html
import os
import pathlib
import sys

if sys.version_info >= (3, 11):
    from tomllib import load
else:
    from pip._vendor.tomli import load

if __name__ == "__main__":
    folder = os.path.abspath(sys.argv[1])
    with open(os.path.join(folder, "pylock.toml"), "rb") as stream:
        packages = load(stream)["packages"]
    with open(os.path.join(folder, "requirements.txt"), "w") as lines, open(
        os.path.join(folder, "wheels.html"), "w"
    ) as links:
        for package in packages:
            wheel = package["wheels"][0]
            sha256 = wheel["hashes"]["sha256"]
            url = wheel.get("url") or pathlib.Path(folder, wheel["name"]).as_uri()
            place = html.escape("{}#sha256={}".format(url.partition("#")[0], sha256))
            links.write('<a href="{}">{}</a>\n'.format(place, html.escape(wheel["name"])))
            lines.write("{}=={} --hash=sha256:{}\n".format(package["name"], package["version"], sha256))
