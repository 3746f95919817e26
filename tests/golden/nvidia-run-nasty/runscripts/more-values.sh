# Values of PyTorch-NGC/24.05 it's, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_user_commands=true
sifmod_installer=pip
declare -gA sifmod_pack=([compressor]=zstd [level]=5 [block_size]=256K [processors]=0)
sifmod_site_packages=lib/python3.12/site-packages
sifmod_line_of_layer='import os, site, sys; p = '"'"'/user-layers/%d/venv/a+b/lib/python3.12/site-packages'"'"'; p in sys.path or not os.path.isdir(p) or site.addsitedir(p)
'
declare -gA sifmod_said=(
    [image_is_gone]='the image '"'"'/tmp/a b,c'"'"'d$e/nasty $image "1".sif'"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
    [runtime_is_missing]='no container runtime on this node: looked for singularity ce on PATH. Load its module, use a node that has one, or set '"'"'runtime'"'"' in the site file'
    [own_environment]='this environment works in the container only (start-shell): on the host, its python is the host'"'"'s. To add packages to PyTorch-NGC/24.05 it'"'"'s: pip install NAME. For a separate set of packages: sifmod on '"'"'PyTorch-NGC/24.05 it'"'"'"'"'"'"'"'"'s'"'"' --name NAME'
    [own_kernel]='Jupyter on the host can'"'"'t start this kernel. For one that it can start: sifmod kernel '"'"'PyTorch-NGC/24.05 it'"'"'"'"'"'"'"'"'s'"'"''
    [unreadable_beside_directory]='/tmp/a b,c'"'"'d$e/user-software.squashfs can'"'"'t be read, so /tmp/a b,c'"'"'d$e/user-software is used. Its owner can allow it with: chmod ug+r '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"''
    [unreadable_alone]='/tmp/a b,c'"'"'d$e/user-software.squashfs can'"'"'t be read, and your packages are in it. Its owner can allow it with: chmod ug+r '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"''
    [damaged_beside_directory]='/tmp/a b,c'"'"'d$e/user-software.squashfs is damaged, so /tmp/a b,c'"'"'d$e/user-software is used. Pack it again with: rm '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"'; make-squashfs'
    [damaged_alone]='/tmp/a b,c'"'"'d$e/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /tmp/a b,c'"'"'d$e/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"'; module unload '"'"'PyTorch-NGC/24.05 it'"'"'"'"'"'"'"'"'s'"'"'; eb --rebuild '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e'"'"'/easybuild/*.eb. Then, if /tmp/a b,c'"'"'d$e/user-software.txt is there, load the module and type: carry-over '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.txt'"'"''
    [stale]='this shell loaded PyTorch-NGC/24.05 it'"'"'s before its user software was packed, so singularity here still uses the old directory. Run: module load PyTorch-NGC/24.05 it'"'"'s'
    [missing]='the user software is missing: neither /tmp/a b,c'"'"'d$e/user-software nor /tmp/a b,c'"'"'d$e/user-software.squashfs exists. Restore the file, if /tmp/a b,c'"'"'d$e/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload '"'"'PyTorch-NGC/24.05 it'"'"'"'"'"'"'"'"'s'"'"'; eb --rebuild '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e'"'"'/easybuild/*.eb. Then, if /tmp/a b,c'"'"'d$e/user-software.txt is there, load the module and type: carry-over '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.txt'"'"''
    [may_not_write]='for group write permission, ask its owner. For a module of your own on top: sifmod on '"'"'PyTorch-NGC/24.05 it'"'"'"'"'"'"'"'"'s'"'"' --name NAME'
)

# the same in every installation
