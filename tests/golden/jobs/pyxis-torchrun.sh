#!/bin/bash -e
#SBATCH --job-name=package.train
#SBATCH --output=%x-%j.out
#SBATCH --time=1:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
# Written by sifmod for the site test.

module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${CONTAINERROOT:?the module is not a container module of sifmod}"
if [[ ! -f $CONTAINERROOT/share/pyxis.sh ]]; then
    echo 'PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315 was installed without an image for enroot: install it again with eb --rebuild at a site whose runtimes have enroot' >&2
    exit 1
fi
# sets SQSH, CONTAINER_MOUNTS and CONTAINER_ENV from the module's bind paths and variables
source "$CONTAINERROOT/share/pyxis.sh"

srun --kill-on-bad-exit \
    --container-image="$SQSH" --container-mounts="$CONTAINER_MOUNTS" --container-env="$CONTAINER_ENV" \
    --container-workdir="$PWD" --container-mount-home --no-container-remap-root \
    /runscripts/with-environment \
    torchrun-distributed --nproc_per_node=4 \
    -m package.train
