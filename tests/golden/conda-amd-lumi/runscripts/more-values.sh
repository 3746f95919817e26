# Values of PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_user_commands=true
sifmod_installer=pip
declare -gA sifmod_pack=([compressor]=zstd [level]=5 [block_size]=256K [processors]=0)
sifmod_stripe=()
sifmod_site_packages=lib/python3.10/site-packages
sifmod_line_of_layer='import os, site, sys; p = '"'"'/user-layers/%d/venv/pytorch/lib/python3.10/site-packages'"'"'; p in sys.path or not os.path.isdir(p) or site.addsitedir(p)
'
declare -gA sifmod_said=(
    [image_is_gone]='the image '"'"'/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif'"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
    [runtime_is_missing]='no container runtime on this node: looked for singularity and apptainer on PATH. Load its module, use a node that has one, or set '"'"'runtime'"'"' in the site file'
    [unreadable_beside_directory]='/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs can'"'"'t be read, so /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software is used. Its owner can allow it with: chmod ug+r /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs'
    [unreadable_alone]='/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs can'"'"'t be read, and your packages are in it. Its owner can allow it with: chmod ug+r /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs'
    [damaged_beside_directory]='/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs is damaged, so /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software is used. Pack it again with: rm /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs; make-squashfs'
    [damaged_alone]='/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs; module unload PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315; eb --rebuild /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/easybuild/*.eb. Then, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt is there, load the module and type: carry-over /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt'
    [stale]='this shell loaded PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315 before its user software was packed, so singularity here still uses the old directory. Run: module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315'
    [missing]='the user software is missing: neither /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software nor /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs exists. Restore the file, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315; eb --rebuild /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/easybuild/*.eb. Then, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt is there, load the module and type: carry-over /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt'
    [may_not_write]='for group write permission, ask its owner. For a module of your own on top: sifmod on PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315 --name NAME'
)

# the same in every installation
