# Values of PyTorch/24.03-ngc, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
declare -gA sifmod_said=(
    [image_is_gone]='the image '"'"'/apps/PyTorch/24.03-ngc/pytorch.sif'"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
    [squashfs_is_gone]='the image for enroot, /apps/PyTorch/24.03-ngc/pytorch.sqsh, is gone: reinstall the module with: eb --rebuild'
    [runtime_is_missing]='no container runtime on this node: looked for singularity and apptainer on PATH. Load its module, use a node that has one, or set '"'"'runtime'"'"' in the site file'
    [own_environment]='this environment works in the container only (start-shell): on the host, its python is the host'"'"'s'
    [own_kernel]='Jupyter on the host can'"'"'t start this kernel. For one that it can start: sifmod kernel PyTorch/24.03-ngc'
)

# the same in every installation
