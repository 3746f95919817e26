#!/bin/bash -e
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --time=1:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
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

# srun does not inherit this from sbatch
export SRUN_CPUS_PER_TASK=7

# each task on the cores closest to its GPU
masks=0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000

# export SIFMOD_TASK_GPUS=all shows each task all GPUs of its node's tasks, so that LOCAL_RANK is the number of its own; =own that one only, as number 0
srun --kill-on-bad-exit --cpu-bind="mask_cpu:$masks" \
    --container-image="$SQSH" --container-mounts="$CONTAINER_MOUNTS" --container-env="$CONTAINER_ENV" \
    --container-workdir="$PWD" --container-mount-home --no-container-remap-root \
    /runscripts/with-environment \
    conda-python-distributed -u \
    train.py 'it'"'"'s'
