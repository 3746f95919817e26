#!/bin/bash -e
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --partition=small-g
#SBATCH --time=1:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
# Written by sifmod for the site lumi.

module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${SIF:?the module is not a container module of sifmod}"

# The site's CPU masks are not used: they need 8 GPUs per node and one process per GPU.

# export SIFMOD_TASK_GPUS=all shows each task all GPUs of its node's tasks, so that LOCAL_RANK is the number of its own; =own that one only, as number 0
srun --kill-on-bad-exit \
    in-container \
    conda-python-distributed -u \
    train.py
