"""Whether host, site, image and installations fit each other."""
