"""Container images as first-class environment modules on HPC clusters.

Data flows one way: the easyconfig becomes a `ContainerSpec`, which together with a `Site` is rendered into artefacts;
one writer puts them into the installation directory. EasyBuild's easyblock and the command line both use this library,
which imports neither.
"""

__version__ = "0.4.0.dev0"
