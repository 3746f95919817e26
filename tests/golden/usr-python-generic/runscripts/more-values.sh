# Values of Python/3.11-demo-singularity, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_user_commands=true
sifmod_installer=pip
declare -gA sifmod_pack=([compressor]=zstd [level]=5 [block_size]=256K [processors]=0)
sifmod_site_packages=lib/python3.11/site-packages
sifmod_line_of_layer='import os, site, sys; p = '"'"'/user-layers/%d/venv/demo/lib/python3.11/site-packages'"'"'; p in sys.path or not os.path.isdir(p) or site.addsitedir(p)
'
declare -gA sifmod_said=(
    [image_is_gone]='the image '"'"'/apps/Python/3.11-demo-singularity/demo.sif'"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
    [runtime_is_missing]='no container runtime on this node: looked for singularity and apptainer on PATH. Load its module, use a node that has one, or set '"'"'runtime'"'"' in the site file'
    [own_environment]='this environment works in the container only (start-shell): on the host, its python is the host'"'"'s. To add packages to Python/3.11-demo-singularity: pip install NAME. For a separate set of packages: sifmod on Python/3.11-demo-singularity --name NAME'
    [own_kernel]='Jupyter on the host can'"'"'t start this kernel. For one that it can start: sifmod kernel Python/3.11-demo-singularity'
    [unreadable_beside_directory]='/apps/Python/3.11-demo-singularity/user-software.squashfs can'"'"'t be read, so /apps/Python/3.11-demo-singularity/user-software is used. Its owner can allow it with: chmod ug+r /apps/Python/3.11-demo-singularity/user-software.squashfs'
    [unreadable_alone]='/apps/Python/3.11-demo-singularity/user-software.squashfs can'"'"'t be read, and your packages are in it. Its owner can allow it with: chmod ug+r /apps/Python/3.11-demo-singularity/user-software.squashfs'
    [damaged_beside_directory]='/apps/Python/3.11-demo-singularity/user-software.squashfs is damaged, so /apps/Python/3.11-demo-singularity/user-software is used. Pack it again with: rm /apps/Python/3.11-demo-singularity/user-software.squashfs; make-squashfs'
    [damaged_alone]='/apps/Python/3.11-demo-singularity/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /apps/Python/3.11-demo-singularity/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm /apps/Python/3.11-demo-singularity/user-software.squashfs; module unload Python/3.11-demo-singularity; eb --rebuild /apps/Python/3.11-demo-singularity/easybuild/*.eb. Then, if /apps/Python/3.11-demo-singularity/user-software.txt is there, load the module and type: carry-over /apps/Python/3.11-demo-singularity/user-software.txt'
    [stale]='this shell loaded Python/3.11-demo-singularity before its user software was packed, so singularity here still uses the old directory. Run: module load Python/3.11-demo-singularity'
    [missing]='the user software is missing: neither /apps/Python/3.11-demo-singularity/user-software nor /apps/Python/3.11-demo-singularity/user-software.squashfs exists. Restore the file, if /apps/Python/3.11-demo-singularity/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload Python/3.11-demo-singularity; eb --rebuild /apps/Python/3.11-demo-singularity/easybuild/*.eb. Then, if /apps/Python/3.11-demo-singularity/user-software.txt is there, load the module and type: carry-over /apps/Python/3.11-demo-singularity/user-software.txt'
    [may_not_write]='for group write permission, ask its owner. For a module of your own on top: sifmod on Python/3.11-demo-singularity --name NAME'
)

# the same in every installation
