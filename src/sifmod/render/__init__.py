"""Which text a spec and a site become: modules, scripts, help, job scripts."""
